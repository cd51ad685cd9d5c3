#include "text/template_strings.h"

#include <algorithm>
#include <map>

#include "text/template_arguments.h"
#include "text/template_operators.h"
#include "text/template_print.h"

namespace kvasir::text::templates {
namespace {

Result<void> push_part(Runtime& runtime, std::vector<Value>& parts, const MarkedText& text,
                       size_t begin, size_t end) {
  KVASIR_TRY_VOID(runtime.check_item_count(parts.size() + 1));
  KVASIR_TRY(Value part, runtime.text(text.part(begin, end)));
  parts.push_back(std::move(part));
  return {};
}

size_t skip_while_space(std::string_view text, size_t at, bool wanted) {
  for (size_t next = at; at < text.size(); at = next) {
    if (is_space(character_at(text, at, next)) != wanted) break;
  }
  return at;
}

Result<Value> split_at_space(Runtime& runtime, const MarkedText& text, int64_t splits_max) {
  std::vector<Value> parts;
  size_t begin = skip_while_space(text.text(), 0, true);
  for (; begin < text.size() && splits_max != 0; --splits_max) {
    const size_t end = skip_while_space(text.text(), begin, false);
    KVASIR_TRY_VOID(push_part(runtime, parts, text, begin, end));
    begin = skip_while_space(text.text(), end, true);
  }
  if (begin < text.size()) {
    KVASIR_TRY_VOID(push_part(runtime, parts, text, begin, text.size()));
  }
  return runtime.list(std::move(parts));
}

Result<Value> rsplit_at_space(Runtime& runtime, const MarkedText& text, int64_t splits_max) {
  std::vector<Value> parts;
  const std::string_view all = text.text();
  size_t end = stripped(all, Strip::kRight).end;
  for (; end > 0 && splits_max != 0; --splits_max) {
    size_t begin = end;
    while (begin > 0) {
      size_t before = begin - 1, next = 0;
      while ((static_cast<unsigned char>(all[before]) & 0xC0u) == 0x80u) --before;
      if (is_space(character_at(all, before, next))) break;
      begin = before;
    }
    KVASIR_TRY_VOID(push_part(runtime, parts, text, begin, end));
    end = stripped(all.substr(0, begin), Strip::kRight).end;
  }
  if (end > 0) KVASIR_TRY_VOID(push_part(runtime, parts, text, 0, end));
  std::reverse(parts.begin(), parts.end());
  return runtime.list(std::move(parts));
}

// -------- methods

const MarkedText& self_text(const Value& self) {
  return *self.string();
}

template <Strip kSide>
Result<Value> strip_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"chars"}));
  KVASIR_TRY(const auto characters, bound.optional_text(0));
  return strip(runtime, self_text(self), kSide, characters);
}

template <auto kSplit>
Result<Value> split_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"sep", "maxsplit"}));
  KVASIR_TRY(const auto separator, bound.optional_text(0));
  KVASIR_TRY(const int64_t splits_max, bound.integer(1, -1));
  return kSplit(runtime, self_text(self), separator, splits_max);
}

Result<Value> splitlines_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"keepends"}));
  return split_lines(runtime, self_text(self), bound.flag(0));
}

template <bool kAtStart>
bool matches_end(std::string_view text, std::string_view affix) {
  return kAtStart ? text.starts_with(affix) : text.ends_with(affix);
}

template <bool kAtStart>
Result<Value> affix_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"affix", "start", "end"}, 1));
  Value looked_at = self;
  if (bound.is_given(1) || bound.is_given(2)) {
    const Value none;
    KVASIR_TRY(looked_at, slice(runtime, self, bound.is_given(1) ? bound.at(1) : none,
                                bound.is_given(2) ? bound.at(2) : none, none));
  }
  const std::string_view text = looked_at.string()->text();
  if (const MarkedText* affix = bound.at(0).string()) {
    return Value(matches_end<kAtStart>(text, affix->text()));
  }
  const Sequence* affixes = bound.at(0).sequence();
  if (affixes == nullptr || affixes->flavor != Sequence::Flavor::kTuple) {
    return wrong_type("a string or a tuple of strings", bound.at(0));
  }
  KVASIR_TRY_VOID(runtime.spend(affixes->items.size()));
  for (const Value& affix : affixes->items) {
    if (affix.string() == nullptr) return wrong_type("a string", affix);
    if (matches_end<kAtStart>(text, affix.string()->text())) return Value(true);
  }
  return Value(false);
}

template <auto kTransform>
Result<Value> transform_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {}));
  KVASIR_TRY_VOID(runtime.spend_bytes(8 * self_text(self).size()));
  return runtime.text(kTransform(self_text(self).text()), self_text(self).origin());
}

// str.title: a letter after something that is no letter.
std::string titled(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (size_t at = 0, next = 0; at < text.size(); at = next) {
    const char32_t code = character_at(text, at, next);
    const std::string_view character = text.substr(at, next - at);
    out += in_word ? to_lower(character) : capitalized(character);
    in_word = is_cased(code);
  }
  return out;
}

std::string swapped(std::string_view text) {
  std::string out;
  for (size_t at = 0, next = 0; at < text.size(); at = next) {
    const char32_t code = character_at(text, at, next);
    const std::string_view character = text.substr(at, next - at);
    out += is_upper(code) ? to_lower(character) : to_upper(character);
  }
  return out;
}

template <auto kHolds>
Result<Value> all_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {}));
  const std::string_view text = self_text(self).text();
  KVASIR_TRY_VOID(runtime.spend_bytes(8 * text.size()));
  for (size_t at = 0; at < text.size();) {
    if (!kHolds(character_at(text, at, at))) return Value(false);
  }
  return Value(!text.empty());
}
bool is_alphanumeric(char32_t code) {
  return is_alpha(code) || is_digit(code);
}

template <bool kUpper>
Result<Value> case_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {}));
  const std::string_view text = self_text(self).text();
  KVASIR_TRY_VOID(runtime.spend_bytes(8 * text.size()));
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t code = character_at(text, at, at);
    if (!is_cased(code)) continue;
    if (kUpper ? !is_upper(code) : !is_lower(code)) return Value(false);
    any = true;
  }
  return Value(any);
}

Result<Value> replace_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"old", "new", "count"}, 2));
  KVASIR_TRY(const MarkedText old_text, bound.text(0, ""));
  KVASIR_TRY(const MarkedText new_text, bound.text(1, ""));
  KVASIR_TRY(const int64_t count, bound.integer(2, -1));
  return replaced(runtime, self_text(self), old_text, new_text, count);
}

Result<Value> join_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"iterable"}, 1));
  return joined(runtime, self_text(self), bound.at(0), false);
}

enum class Missing : uint8_t { kMinusOne, kError };
template <bool kFromLeft, Missing kMissing>
Result<Value> find_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"sub", "start", "end"}, 1));
  KVASIR_TRY(const MarkedText needle, bound.text(0, ""));
  const std::string_view text = self_text(self).text();
  KVASIR_TRY_VOID(runtime.spend_bytes(text.size()));
  // Positions are of characters; outside of the text they are clamped as in slices.
  const auto characters = static_cast<int64_t>(count_characters(text));
  const auto resolved = [&](int64_t index) {
    if (index < 0) index = std::max<int64_t>(index, -characters) + characters;
    return index;
  };
  KVASIR_TRY(const int64_t start, bound.is_given(1) ? bound.integer(1, 0) : 0);
  KVASIR_TRY(const int64_t end, bound.is_given(2) ? bound.integer(2, 0) : characters);
  const int64_t first = resolved(start), last = std::min(resolved(end), characters);
  size_t found = std::string_view::npos;
  if (first <= last) {
    const size_t begin = byte_of_character(text, static_cast<size_t>(first));
    const size_t stop = byte_of_character(text, static_cast<size_t>(last));
    const std::string_view searched = text.substr(begin, stop - begin);
    found = kFromLeft ? find_text(searched, needle.text()) : rfind_text(searched, needle.text());
    if (found != std::string_view::npos) found += begin;
  }
  if (found != std::string_view::npos) {
    return Value(static_cast<int64_t>(count_characters(text.substr(0, found))));
  }
  if (kMissing == Missing::kError) return Error::invalid("substring not found");
  return Value(int64_t{-1});
}

Result<Value> count_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"sub"}, 1));
  KVASIR_TRY(const MarkedText needle, bound.text(0, ""));
  const std::string& text = self_text(self).text();
  KVASIR_TRY_VOID(runtime.spend_bytes(text.size()));
  if (needle.empty()) return Value(static_cast<int64_t>(count_characters(text) + 1));
  int64_t count = 0;
  for (size_t at = 0; (at = find_text(text, needle.text(), at)) != std::string::npos;
       at += needle.size()) {
    ++count;
  }
  return Value(count);
}

template <bool kAtStart>
Result<Value> remove_affix_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"affix"}, 1));
  KVASIR_TRY(const MarkedText affix, bound.text(0, ""));
  const MarkedText& text = self_text(self);
  if (!matches_end<kAtStart>(text.text(), affix.text())) return self;
  if (kAtStart) return runtime.text(text.part(affix.size(), text.size()));
  return runtime.text(text.part(0, text.size() - affix.size()));
}

template <bool kFromLeft>
Result<Value> partition_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"sep"}, 1));
  KVASIR_TRY(const MarkedText separator, bound.text(0, ""));
  if (separator.empty()) return Error::invalid("the separator is empty");
  const MarkedText& text = self_text(self);
  KVASIR_TRY_VOID(runtime.spend_bytes(text.size()));
  const size_t found = kFromLeft ? find_text(text.text(), separator.text())
                                 : rfind_text(text.text(), separator.text());
  std::vector<Value> parts;
  if (found == std::string::npos) {
    KVASIR_TRY(const Value empty, runtime.text(MarkedText()));
    if (kFromLeft) {
      parts = {self, empty, empty};
    } else {
      parts = {empty, empty, self};
    }
  } else {
    const size_t after = found + separator.size();
    KVASIR_TRY_VOID(push_part(runtime, parts, text, 0, found));
    KVASIR_TRY_VOID(push_part(runtime, parts, text, found, after));
    KVASIR_TRY_VOID(push_part(runtime, parts, text, after, text.size()));
  }
  return runtime.tuple(std::move(parts));
}

enum class Align : uint8_t { kLeft, kRight, kCenter };
template <Align kAlign>
Result<Value> align_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"width", "fillchar"}, 1));
  KVASIR_TRY(const int64_t width, bound.integer(0, 0));
  KVASIR_TRY(const MarkedText fill, bound.text(1, " "));
  if (count_characters(fill.text()) != 1) return Error::invalid("one character fills, not several");
  const MarkedText& text = self_text(self);
  KVASIR_TRY_VOID(runtime.spend_bytes(text.size()));
  const auto characters = static_cast<int64_t>(count_characters(text.text()));
  if (width <= characters) return self;
  const auto space = static_cast<size_t>(width - characters);
  KVASIR_TRY_VOID(runtime.check_text_size(space));
  // CPython puts the odd one on the left if the width is odd.
  size_t left = 0;
  if (kAlign == Align::kRight) left = space;
  if (kAlign == Align::kCenter) left = space / 2 + (space & static_cast<size_t>(width) & 1U);
  TextBuilder builder(runtime);
  for (size_t i = 0; i < left; ++i) KVASIR_TRY_VOID(builder.append(fill));
  KVASIR_TRY_VOID(builder.append(text));
  for (size_t i = left; i < space; ++i) KVASIR_TRY_VOID(builder.append(fill));
  return runtime.text(builder.take());
}

Result<Value> zfill_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"width"}, 1));
  KVASIR_TRY(const int64_t width, bound.integer(0, 0));
  const std::string& text = self_text(self).text();
  KVASIR_TRY_VOID(runtime.spend_bytes(text.size()));
  const auto characters = static_cast<int64_t>(count_characters(text));
  if (width <= characters) return self;
  const auto zeros = static_cast<size_t>(width - characters);
  KVASIR_TRY_VOID(runtime.check_text_size(zeros));
  const size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  return runtime.text(text.substr(0, sign) + std::string(zeros, '0') + text.substr(sign),
                      self_text(self).origin());
}

// "{}", "{0}" and "{name}"; not the format language behind a colon.
Result<Value> format_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const MarkedText& format = self_text(self);
  const std::string& text = format.text();
  TextBuilder builder(runtime);
  size_t next_argument = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t brace = std::min(text.find_first_of("{}", at), text.size());
    KVASIR_TRY_VOID(builder.append(format.part(at, brace)));
    at = brace;
    if (at == text.size()) break;
    if (at + 1 < text.size() && text[at + 1] == text[at]) {
      KVASIR_TRY_VOID(builder.append(format.part(at, at + 1)));
      at += 2;
      continue;
    }
    const size_t close = text.find('}', at);
    if (text[at] == '}' || close == std::string::npos) {
      return Error::invalid("a single brace in a format");
    }
    const std::string field = text.substr(at + 1, close - at - 1);
    const Value* value = nullptr;
    if (field.find_first_not_of("0123456789") == std::string::npos) {
      const size_t index = field.empty()      ? next_argument++
                           : field.size() > 6 ? SIZE_MAX
                                              : std::stoul(field);
      if (index < arguments.positional.size()) value = &arguments.positional[index];
    } else if (field.find_first_of(":!.[") != std::string::npos) {
      return Error::unsupported("the format '{{{}}}' is not supported", field);
    } else {
      for (const auto& named : arguments.named) {
        if (named.first == field) value = &named.second;
      }
    }
    if (value == nullptr) return Error::invalid("the format '{{{}}}' has no argument", field);
    KVASIR_TRY(const MarkedText part, to_text(runtime, *value));
    KVASIR_TRY_VOID(builder.append(part));
    at = close + 1;
  }
  return runtime.text(builder.take());
}

}  // namespace

Result<Value> strip(Runtime& runtime, const MarkedText& text, Strip side,
                    const std::optional<MarkedText>& characters) {
  if (characters) {
    KVASIR_TRY_VOID(runtime.spend_bytes(8 * characters->size()));
    const ByteRange range = stripped(text.text(), side, characters->text());
    return runtime.text(text.part(range.begin, range.end));
  }
  const ByteRange range = stripped(text.text(), side);
  return runtime.text(text.part(range.begin, range.end));
}

Result<Value> split(Runtime& runtime, const MarkedText& text,
                    const std::optional<MarkedText>& separator, int64_t splits_max) {
  KVASIR_TRY_VOID(runtime.spend_bytes(text.size()));
  if (!separator) return split_at_space(runtime, text, splits_max);
  if (separator->empty()) return Error::invalid("the separator is empty");
  std::vector<Value> parts;
  size_t begin = 0;
  for (; splits_max != 0; --splits_max) {
    const size_t found = find_text(text.text(), separator->text(), begin);
    if (found == std::string::npos) break;
    KVASIR_TRY_VOID(push_part(runtime, parts, text, begin, found));
    begin = found + separator->size();
  }
  KVASIR_TRY_VOID(push_part(runtime, parts, text, begin, text.size()));
  return runtime.list(std::move(parts));
}

Result<Value> rsplit(Runtime& runtime, const MarkedText& text,
                     const std::optional<MarkedText>& separator, int64_t splits_max) {
  KVASIR_TRY_VOID(runtime.spend_bytes(text.size()));
  if (!separator) return rsplit_at_space(runtime, text, splits_max);
  if (separator->empty()) return Error::invalid("the separator is empty");
  std::vector<Value> parts;
  size_t end = text.size();
  for (; splits_max != 0; --splits_max) {
    const size_t found =
        rfind_text(std::string_view(text.text()).substr(0, end), separator->text());
    if (found == std::string::npos) break;
    KVASIR_TRY_VOID(push_part(runtime, parts, text, found + separator->size(), end));
    end = found;
  }
  KVASIR_TRY_VOID(push_part(runtime, parts, text, 0, end));
  std::reverse(parts.begin(), parts.end());
  return runtime.list(std::move(parts));
}

Result<Value> split_lines(Runtime& runtime, const MarkedText& text, bool keeps_ends) {
  KVASIR_TRY_VOID(runtime.spend_bytes(text.size()));
  std::vector<Value> lines;
  size_t begin = 0;
  for (size_t at = 0, next = 0; at < text.size(); at = next) {
    const char32_t code = character_at(text.text(), at, next);
    if (!is_line_end(code)) continue;
    if (code == '\r' && next < text.size() && text.text()[next] == '\n') ++next;
    KVASIR_TRY_VOID(push_part(runtime, lines, text, begin, keeps_ends ? next : at));
    begin = next;
  }
  if (begin < text.size()) KVASIR_TRY_VOID(push_part(runtime, lines, text, begin, text.size()));
  return runtime.list(std::move(lines));
}

Result<Value> replaced(Runtime& runtime, const MarkedText& text, const MarkedText& old_text,
                       const MarkedText& new_text, int64_t count_max) {
  const Origin origin = both(text.origin(), new_text.origin());
  const std::string& source = text.text();
  KVASIR_TRY_VOID(runtime.spend_bytes(source.size()));
  TextBuilder builder(runtime);
  size_t begin = 0;
  for (size_t from = 0; count_max != 0; --count_max) {
    const size_t found = find_text(source, old_text.text(), from);
    if (found == std::string::npos) break;
    KVASIR_TRY_VOID(builder.append(std::string_view(source).substr(begin, found - begin), origin));
    KVASIR_TRY_VOID(builder.append(new_text.text(), origin));
    begin = from = found + old_text.size();
    if (old_text.empty()) {  // stands in front of each character and at the end
      if (found == source.size()) break;
      character_at(source, found, from);
    }
  }
  KVASIR_TRY_VOID(builder.append(std::string_view(source).substr(begin), origin));
  return runtime.text(builder.take());
}

Result<Value> joined(Runtime& runtime, const MarkedText& separator, const Value& items,
                     bool converts) {
  KVASIR_TRY(const auto sequence, iterate(runtime, items));
  TextBuilder builder(runtime);
  bool is_first = true;
  for (const Value& item : sequence->items) {
    if (!std::exchange(is_first, false)) KVASIR_TRY_VOID(builder.append(separator));
    if (!converts && item.string() == nullptr) return wrong_type("strings to join", item);
    KVASIR_TRY(const MarkedText part, to_text(runtime, item));
    KVASIR_TRY_VOID(builder.append(part));
  }
  return runtime.text(builder.take());
}

NativeFunction find_string_method(std::string_view name) {
  static const std::map<std::string_view, NativeFunction> kMethods = {
      {"capitalize", transform_method<capitalized>},
      {"center", align_method<Align::kCenter>},
      {"count", count_method},
      {"endswith", affix_method<false>},
      {"find", find_method<true, Missing::kMinusOne>},
      {"format", format_method},
      {"index", find_method<true, Missing::kError>},
      {"isalnum", all_method<is_alphanumeric>},
      {"isalpha", all_method<is_alpha>},
      {"isdecimal", all_method<is_digit>},
      {"isdigit", all_method<is_digit>},
      {"islower", case_method<false>},
      {"isnumeric", all_method<is_digit>},
      {"isspace", all_method<is_space>},
      {"isupper", case_method<true>},
      {"join", join_method},
      {"ljust", align_method<Align::kLeft>},
      {"lower", transform_method<to_lower>},
      {"lstrip", strip_method<Strip::kLeft>},
      {"partition", partition_method<true>},
      {"removeprefix", remove_affix_method<true>},
      {"removesuffix", remove_affix_method<false>},
      {"replace", replace_method},
      {"rfind", find_method<false, Missing::kMinusOne>},
      {"rindex", find_method<false, Missing::kError>},
      {"rjust", align_method<Align::kRight>},
      {"rpartition", partition_method<false>},
      {"rsplit", split_method<rsplit>},
      {"rstrip", strip_method<Strip::kRight>},
      {"split", split_method<split>},
      {"splitlines", splitlines_method},
      {"startswith", affix_method<true>},
      {"strip", strip_method<Strip::kBoth>},
      {"swapcase", transform_method<swapped>},
      {"title", transform_method<titled>},
      {"upper", transform_method<to_upper>},
      {"zfill", zfill_method},
  };
  const auto found = kMethods.find(name);
  return found == kMethods.end() ? nullptr : found->second;
}

}  // namespace kvasir::text::templates
