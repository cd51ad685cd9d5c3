#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace kvasir {

std::string_view error_kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kCorrupt:
      return "corrupt";
    case ErrorKind::kUnsupported:
      return "unsupported";
    case ErrorKind::kNotFound:
      return "not-found";
    case ErrorKind::kIo:
      return "io";
    case ErrorKind::kInvalid:
      return "invalid";
    case ErrorKind::kLimit:
      return "limit";
    case ErrorKind::kNonFinite:
      return "non-finite";
    case ErrorKind::kUntrusted:
      return "untrusted";
  }
  return "unknown";
}

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "kvasir: broken contract: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace kvasir
