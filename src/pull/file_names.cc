#include "pull/file_names.h"

#include <algorithm>

namespace kvasir::pull {
namespace {

constexpr size_t kNameBytesMax = 200;
constexpr size_t kPathPartsMax = 8;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return result;
}

bool looks_like_type(const std::string& word) {
  if (word == "F16" || word == "BF16" || word == "F32" || word == "FP16") return true;
  if (word.starts_with("MXFP")) return true;
  const std::string_view rest = std::string_view(word).substr(word.starts_with("IQ")   ? 2
                                                              : word.starts_with("TQ") ? 2
                                                              : word.starts_with("Q")  ? 1
                                                                                       : 0);
  return rest.size() < word.size() && rest.size() >= 3 && is_digit(rest[0]) && rest[1] == '_';
}

uint32_t five_digits(std::string_view text) {
  uint32_t number = 0;
  for (char c : text) {
    if (!is_digit(c)) return 0;
    number = number * 10 + static_cast<uint32_t>(c - '0');
  }
  return number;
}

}  // namespace

bool is_file_name(std::string_view name) {
  if (name.empty() || name.size() > kNameBytesMax) return false;
  if (name.front() == '.' || name.front() == '-' || name.front() == ' ') return false;
  constexpr std::string_view kRefused = "/\\:*?\"<>|%";
  return std::all_of(name.begin(), name.end(), [&](char c) {
    return c >= 0x20 && c < 0x7f && kRefused.find(c) == std::string_view::npos;
  });
}

bool is_file_path(std::string_view path) {
  for (size_t parts = 1; parts <= kPathPartsMax; ++parts) {
    const size_t slash = path.find('/');
    if (!is_file_name(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
  return false;
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return is_digit(c) || (c >= 'a' && c <= 'f');
         });
}

std::string SplitName::of(uint32_t other) const {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, other, count);
}

std::optional<SplitName> parse_split_name(std::string_view name) {
  constexpr std::string_view kTail = "-00001-of-00001.gguf";
  if (name.size() <= kTail.size()) return std::nullopt;
  const std::string_view tail = name.substr(name.size() - kTail.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf")
    return std::nullopt;
  const uint32_t part = five_digits(tail.substr(1, 5));
  const uint32_t count = five_digits(tail.substr(10, 5));
  if (part == 0 || part > count || count > kSplitPartsMax) return std::nullopt;
  return SplitName{std::string(name.substr(0, name.size() - kTail.size())), part, count};
}

std::string quantization_of(std::string_view name) {
  std::string stem(
      name.substr(name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1));
  if (auto split = parse_split_name(stem))
    stem = split->prefix;
  else if (stem.ends_with(".gguf"))
    stem.resize(stem.size() - 5);
  const size_t at = stem.find_last_of("-.");
  if (at == std::string::npos) return "";
  const std::string word = upper(stem.substr(at + 1));
  if (!looks_like_type(word)) return "";
  const std::string before = upper(stem.substr(0, at));
  return before.ends_with("-UD") || before.ends_with(".UD") ? "UD-" + word : word;
}

}  // namespace kvasir::pull
