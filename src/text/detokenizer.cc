#include "text/detokenizer.h"

#include <algorithm>

#include "text/utf8.h"

namespace kvasir::text {
namespace {

// Moves the whole characters of `bytes` to `text`, invalid sequences replaced; what stays is empty
// or the beginning of a character.
void take_characters(std::string& bytes, std::string& text) {
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const Utf8Prefix prefix = read_utf8(rest);
    if (prefix.kind == Utf8Prefix::Kind::kIncomplete) break;
    const bool valid = prefix.kind == Utf8Prefix::Kind::kCharacter;
    text += valid ? rest.substr(0, prefix.bytes) : kReplacementCharacter;
    rest.remove_prefix(prefix.bytes);
  }
  bytes.erase(0, bytes.size() - rest.size());
}

}  // namespace

Detokenizer::Stop::Stop(std::string stop_text) : text(std::move(stop_text)), borders(text.size()) {
  size_t border = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    borders[i] = border;
    while (border > 0 && text[i] != text[border]) border = borders[border];
    if (text[i] == text[border]) ++border;
  }
}

bool Detokenizer::Stop::advance(char byte) {
  while (matched > 0 && text[matched] != byte) matched = borders[matched];
  if (text[matched] == byte) ++matched;
  return matched == text.size();
}

Detokenizer::Detokenizer(std::vector<std::string> stop_strings) {
  for (std::string& bytes : stop_strings) {
    std::string text;
    take_characters(bytes, text);
    if (!bytes.empty()) text += kReplacementCharacter;
    if (!text.empty()) stops_.emplace_back(std::move(text));
  }
}

std::string Detokenizer::push(std::string_view bytes) {
  if (stopped_) return {};
  pending_bytes_ += bytes;
  std::string text;
  take_characters(pending_bytes_, text);
  add_text(text);
  return take_certain();
}

std::string Detokenizer::finish() {
  if (!pending_bytes_.empty() && !stopped_) add_text(kReplacementCharacter);
  pending_bytes_.clear();
  for (Stop& stop : stops_) stop.matched = 0;
  return take_certain();
}

void Detokenizer::add_text(std::string_view text) {
  for (const char byte : text) {
    held_text_ += byte;
    size_t completed_bytes = 0;
    for (Stop& stop : stops_) {
      if (stop.advance(byte)) completed_bytes = std::max(completed_bytes, stop.text.size());
    }
    if (completed_bytes == 0) continue;
    held_text_.resize(held_text_.size() - completed_bytes);
    stopped_ = true;
    // Nothing is held any more: what comes before the stop string is certain.
    for (Stop& stop : stops_) stop.matched = 0;
    pending_bytes_.clear();
    return;
  }
}

std::string Detokenizer::take_certain() {
  size_t held_bytes = 0;
  for (const Stop& stop : stops_) held_bytes = std::max(held_bytes, stop.matched);
  std::string certain = held_text_.substr(0, held_text_.size() - held_bytes);
  held_text_.erase(0, certain.size());
  return certain;
}

}  // namespace kvasir::text
