// Where results go: standard output or a file, with every write checked. (A full disk or a closed
// pipe must not look like success.)
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace kvasir::cli {

// One thread. Not buffered: callers write whole pieces, and streamed text appears at once.
class Output {
 public:
  static Output standard();
  // "-": standard output. Otherwise the file is created or emptied.
  static Result<Output> open(const std::string& path);

  Output(Output&& other) noexcept;
  Output& operator=(Output&&) = delete;
  ~Output();

  Result<void> write(std::string_view bytes);
  // Some file systems report a full disk only here. Nothing may follow.
  Result<void> close();

 private:
  Output(std::string name, int descriptor, bool owned)
      : name_(std::move(name)), descriptor_(descriptor), owned_(owned) {}

  std::string name_;
  int descriptor_;
  bool owned_;
};

// The error of a write to a pipe whose reader has gone: reported by the exit code alone.
bool is_broken_pipe(const Error& error);

// A whole file, or standard input for "-", up to `bytes_max` (kLimit beyond).
Result<std::string> read_input(const std::string& path, size_t bytes_max);

}  // namespace kvasir::cli
