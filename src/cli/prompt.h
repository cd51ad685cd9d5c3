// The user's text, from wherever it comes.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/options.h"
#include "text/tokenizer.h"

namespace kvasir::cli {

// Longer input is a mistake (a model file named as a prompt, an endless device).
inline constexpr size_t kPromptBytesMax = size_t{256} << 20;

// -p, -f or standard input, unchanged but for escapes in -p. kInvalid if none was given and
// standard input is a terminal.
Result<std::string> read_prompt(const PromptFlags& flags);

std::vector<text::TokenId> encode_prompt(const text::Tokenizer& tokenizer, const std::string& text,
                                         const PromptFlags& flags);

// Lines of standard input. std::getline would turn an interrupted read into an end of file. One
// thread.
class LineReader {
 public:
  enum class Event : uint8_t { kLine, kEnd, kInterrupted };
  // A line without its end; a last line may lack it. A line stops growing at kPromptBytesMax.
  Event next(std::string& line);

 private:
  std::string pending_;
  bool ended_ = false;
};

}  // namespace kvasir::cli
