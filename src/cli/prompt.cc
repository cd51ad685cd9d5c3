#include "cli/prompt.h"

#include <unistd.h>

#include <cerrno>

#include "cli/output.h"
#include "cli/parsing.h"

namespace kvasir::cli {

Result<std::string> read_prompt(const PromptFlags& flags) {
  if (flags.text) return flags.escapes ? expand_escapes(*flags.text) : *flags.text;
  if (!flags.file && ::isatty(STDIN_FILENO) == 1) {
    return Error::invalid("no text was given")
        .with_hint("give it with -p TEXT or -f FILE, or pipe it to standard input");
  }
  return read_input(flags.file.value_or("-"), kPromptBytesMax);
}

std::vector<text::TokenId> encode_prompt(const text::Tokenizer& tokenizer, const std::string& text,
                                         const PromptFlags& flags) {
  return tokenizer.encode(
      text, flags.parse_special ? text::SpecialTokens::kParse : text::SpecialTokens::kPlainText,
      flags.normalize ? text::Normalization::kNfc : text::Normalization::kNone);
}

LineReader::Event LineReader::next(std::string& line) {
  size_t searched = 0;
  for (;;) {
    const size_t end = pending_.find('\n', searched);
    if (end != std::string::npos || pending_.size() >= kPromptBytesMax) {
      const size_t length = std::min(end, kPromptBytesMax);
      line = pending_.substr(0, length);
      pending_.erase(0, end == std::string::npos ? length : end + 1);
      return Event::kLine;
    }
    searched = pending_.size();
    if (ended_) {
      line = std::move(pending_);
      pending_.clear();
      return line.empty() ? Event::kEnd : Event::kLine;
    }
    char piece[4096];
    const ssize_t count = ::read(STDIN_FILENO, piece, sizeof piece);
    if (count < 0 && errno == EINTR) return Event::kInterrupted;
    if (count <= 0)
      ended_ = true;
    else
      pending_.append(piece, static_cast<size_t>(count));
  }
}

}  // namespace kvasir::cli
