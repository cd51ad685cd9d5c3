// Errors as values: a kind that callers switch on, a text that people read, and a hint what to do
// next.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace kvasir {

enum class ErrorKind : uint8_t {
  kCorrupt,      // bytes from outside that break their format's rules
  kUnsupported,  // well-formed, but nothing here can handle it
  kNotFound,     // a file, key, tensor or id that is not there
  kIo,           // the operating system refused a read, write or map
  kInvalid,      // an argument outside its allowed values
  kLimit,        // too large: context, memory, configured bound
  kNonFinite,    // NaN or infinity came out of a computation
  kUntrusted,    // built on something that turned out to be false; to be done again
};

std::string_view error_kind_name(ErrorKind kind);

struct Error {
  ErrorKind kind = ErrorKind::kCorrupt;
  std::string message;  // what happened and where, without a trailing full stop
  std::string hint;     // what to do next; may be empty

  Error with_hint(std::string text) && {
    hint = std::move(text);
    return std::move(*this);
  }
  // Puts where it happened in front: "model.gguf: tensor 'x': ...".
  Error in(std::string_view place) && {
    message = fmt::format("{}: {}", place, message);
    return std::move(*this);
  }

#define KVASIR_ERROR_FACTORY(name, enumerator)                                            \
  template <typename... Args>                                                             \
  static Error name(fmt::format_string<Args...> format, Args&&... args) {                 \
    return {ErrorKind::enumerator, fmt::format(format, std::forward<Args>(args)...), {}}; \
  }
  KVASIR_ERROR_FACTORY(corrupt, kCorrupt)
  KVASIR_ERROR_FACTORY(unsupported, kUnsupported)
  KVASIR_ERROR_FACTORY(not_found, kNotFound)
  KVASIR_ERROR_FACTORY(io, kIo)
  KVASIR_ERROR_FACTORY(invalid, kInvalid)
  KVASIR_ERROR_FACTORY(limit, kLimit)
  KVASIR_ERROR_FACTORY(non_finite, kNonFinite)
  KVASIR_ERROR_FACTORY(untrusted, kUntrusted)
#undef KVASIR_ERROR_FACTORY
};

// A value or an Error. `return Error::corrupt(...)` and `return value` both work.
template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  Result(Error error) : tl::expected<T, Error>(tl::unexpect, std::move(error)) {}
};

// KVASIR_TRY(auto x, f());   assigns the value of a Result or returns its error from this function.
// KVASIR_TRY_VOID(f());      the same for a Result<void>.
#define KVASIR_CONCAT_INNER(a, b) a##b
#define KVASIR_CONCAT(a, b) KVASIR_CONCAT_INNER(a, b)
#define KVASIR_TRY(declaration, expression)                         \
  auto KVASIR_CONCAT(try_result_, __LINE__) = (expression);         \
  if (!KVASIR_CONCAT(try_result_, __LINE__))                        \
    return std::move(KVASIR_CONCAT(try_result_, __LINE__).error()); \
  declaration = std::move(*KVASIR_CONCAT(try_result_, __LINE__))
#define KVASIR_TRY_VOID(expression) \
  if (auto try_result = (expression); !try_result) return std::move(try_result.error())

// Our own contract broken: says where and stops, in release builds too.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
#define KVASIR_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::kvasir::check_failed(#condition, __FILE__, __LINE__))

}  // namespace kvasir
