#include "config/flag_table.h"

#include <algorithm>

namespace kvasir::config {
namespace {

// No locale: keys and variables are ASCII.
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string in_variable_words(std::string_view words) {
  std::string result;
  for (const char c : words) {
    if (is_lower(c))
      result += static_cast<char>(c - 'a' + 'A');
    else
      result += c == '-' ? '_' : c;
  }
  return result;
}

// The words in capitals: HOST and PORT of "[HOST:]PORT".
std::vector<std::string> placeholders(std::string_view type) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : type) {
    if (is_upper(c) && !inside) words.emplace_back();
    inside = is_upper(c);
    if (inside) words.back() += c;
  }
  return words;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] =
          std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? size_t{0} : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

const Verb* find_verb(const Program& program, std::string_view name) {
  for (const Verb& verb : program.verbs)
    if (verb.name == name) return &verb;
  return nullptr;
}

const Flag* find_setting(const Verb& verb, std::string_view key) {
  if (!verb.has_settings || key.empty()) return nullptr;
  for (const Flag& flag : verb.flags)
    if (flag.is_setting && flag.key == key) return &flag;
  return nullptr;
}

std::string variable_prefix(const Verb& verb) {
  return "KVASIR_" + in_variable_words(verb.name) + "_";
}

std::string variable_name(const Verb& verb, const Flag& flag) {
  return variable_prefix(verb) + in_variable_words(flag.key);
}

std::string shared_variable(const Flag& flag) {
  const std::string name = "KVASIR_" + in_variable_words(flag.key);
  const std::string text = default_text(flag);
  if (!text.starts_with("$" + name)) return "";
  const std::string_view rest = std::string_view(text).substr(1 + name.size());
  const bool goes_on = !rest.empty() && (is_upper(rest[0]) || is_digit(rest[0]) || rest[0] == '_');
  return goes_on ? "" : name;
}

Shape shape_of(const Flag& flag) {
  if (flag.type.empty()) return Shape::kSwitch;
  if (flag.type == "N") return Shape::kWhole;
  if (flag.type == "X") return Shape::kNumber;
  for (const std::string& word : placeholders(flag.type))
    if (word == "N" || word == "SIZE" || word == "PORT" || word == "RATE")
      return Shape::kTextOrWhole;
  return Shape::kText;
}

std::string_view shape_text(const Flag& flag) {
  switch (shape_of(flag)) {
    case Shape::kSwitch:
      return flag.bare.empty() ? "true or false" : "true, false or a text";
    case Shape::kWhole:
      return "a whole number";
    case Shape::kNumber:
      return "a number";
    case Shape::kTextOrWhole:
      return "a text or a whole number";
    case Shape::kText:
      return "a text";
  }
  return "";
}

std::vector<std::string> choices_of(const Flag& flag) {
  std::vector<std::string> choices;
  std::string_view rest = flag.type;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find('|'));
    const std::string_view word = one.substr(0, one.find('['));
    const bool fixed = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
      return is_lower(c) || is_digit(c) || c == '-' || c == '_';
    });
    if (fixed) choices.emplace_back(word);
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
  }
  return choices;
}

std::string default_text(const Flag& flag) {
  constexpr std::string_view kMark = "default: ";
  const std::string& text = flag.description;
  for (size_t at = text.find(kMark); at != std::string::npos; at = text.find(kMark, at + 1)) {
    // "host default: ..." is not the default of the flag.
    const std::string_view before = std::string_view(text).substr(0, at);
    if (!before.ends_with('(') && !before.ends_with("; ")) continue;
    size_t end = at, depth = 1;
    for (; end < text.size(); ++end) {
      if (text[end] == '(') ++depth;
      if (text[end] == ')' && --depth == 0) break;
    }
    return text.substr(at + kMark.size(), end - at - kMark.size());
  }
  return "";
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& words) {
  // Longer words are no keys of ours, and the distance takes quadratic time.
  constexpr size_t kWordMax = 64;
  std::optional<std::string> best;
  if (word.size() > kWordMax) return best;
  size_t distance_best = 0;
  for (const std::string& candidate : words) {
    // Somebody who writes `token` or `temp` means what begins so.
    const bool begins = word.size() >= 3 && candidate.starts_with(word);
    const size_t distance = begins ? 1 : edit_distance(word, candidate);
    if (distance > std::max<size_t>(2, candidate.size() / 3)) continue;
    if (best && distance >= distance_best) continue;
    best = candidate;
    distance_best = distance;
  }
  return best;
}

}  // namespace kvasir::config
