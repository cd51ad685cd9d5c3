// A file that appears whole or not at all: "<path>.partial" until it is finished, then in the place
// of what was there, whose permissions it gets. A device or a pipe is written directly.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"

namespace kvasir {

// One thread.
class OutputFile {
 public:
  static Result<OutputFile> create(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();  // removes the partial file if it was not finished

  Result<void> write(ByteSpan bytes);
  Result<void> grow_to(uint64_t bytes);  // by a hole
  // Nothing may follow. Some file systems report a full disk only here.
  Result<void> finish();

  int descriptor() const { return descriptor_; }  // for writes with errors of one's own

 private:
  OutputFile(std::string name, std::string target, std::string partial, int descriptor)
      : name_(std::move(name)),
        target_(std::move(target)),
        partial_(std::move(partial)),
        descriptor_(descriptor) {}

  std::string name_;     // for messages
  std::string target_;   // links followed
  std::string partial_;  // empty: written directly
  int descriptor_;
};

}  // namespace kvasir
