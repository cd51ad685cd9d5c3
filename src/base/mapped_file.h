// A file mapped read-only into memory.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/error.h"

namespace kvasir {

// One owner, movable; the bytes may be read from any thread. The file must not shrink while it is
// mapped: access beyond its end is then a SIGBUS, see install_sigbus_reporter().
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  ByteSpan bytes() const { return bytes_; }
  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }

 private:
  MappedFile() = default;

  std::string path_;
  int descriptor_ = -1;
  ByteSpan bytes_;
};

// Makes the process end with the name of the mapped file, instead of a bare "Bus error", when a
// mapped file was truncated under us. Call once at start-up.
void install_sigbus_reporter();

}  // namespace kvasir
