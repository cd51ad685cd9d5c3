// Where results go: standard output or a file, with every write checked. (A full disk or a closed
// pipe must not look like success.)
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/output_file.h"

namespace kvasir::cli {

// One thread. Not buffered: callers write whole pieces, and streamed text appears at once.
class Output {
 public:
  static Output standard();
  // "-": standard output. A file appears, or is replaced, when the output is closed.
  static Result<Output> open(const std::string& path);

  Result<void> write(std::string_view bytes);
  // Without it a file is given up. Nothing may follow.
  Result<void> close();

 private:
  Output(std::string name, std::optional<OutputFile> file)
      : name_(std::move(name)), file_(std::move(file)) {}

  std::string name_;
  std::optional<OutputFile> file_;  // none: standard output
};

// The error of a write to a pipe whose reader has gone: reported by the exit code alone.
bool is_broken_pipe(const Error& error);

// A whole file, or standard input for "-", up to `bytes_max` (kLimit beyond).
Result<std::string> read_input(const std::string& path, size_t bytes_max);

}  // namespace kvasir::cli
