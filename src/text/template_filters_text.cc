// Filters that make text.
#include <algorithm>

#include "text/template_arguments.h"
#include "text/template_filter_groups.h"
#include "text/template_methods.h"
#include "text/template_operators.h"
#include "text/template_print.h"
#include "text/template_strings.h"

namespace kvasir::text::templates {
namespace {

template <auto kTransform>
Result<Value> transformed(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {}));
  KVASIR_TRY(const MarkedText text, to_text(runtime, input));
  KVASIR_TRY_VOID(runtime.spend_bytes(8 * text.size()));
  return runtime.text(kTransform(text.text()), text.origin());
}

// Jinja's own title: words begin behind white space and - ( { [ <.
std::string titled_words(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (size_t at = 0, next = 0; at < text.size(); at = next) {
    const char32_t code = character_at(text, at, next);
    const std::string_view character = text.substr(at, next - at);
    const bool is_border =
        is_space(code) || (code < 0x80 && std::string_view("-({[<").find(static_cast<char>(code)) !=
                                              std::string_view::npos);
    out += in_word ? to_lower(character) : to_upper(character);
    in_word = !is_border;
  }
  return out;
}

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Result<Value> as_string(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {}));
  KVASIR_TRY(MarkedText text, to_text(runtime, input));
  return runtime.text(std::move(text));
}

Result<Value> trim(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"chars"}));
  KVASIR_TRY(const auto characters, bound.optional_text(0));
  KVASIR_TRY(const MarkedText text, to_text(runtime, input));
  return strip(runtime, text, Strip::kBoth, characters);
}

Result<Value> replace(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"old", "new", "count"}, 2));
  KVASIR_TRY(const MarkedText text, to_text(runtime, input));
  KVASIR_TRY(const MarkedText old_text, to_text(runtime, bound.at(0)));
  KVASIR_TRY(const MarkedText new_text, to_text(runtime, bound.at(1)));
  KVASIR_TRY(const int64_t count, bound.is_given(2) ? bound.integer(2, -1) : -1);
  return replaced(runtime, text, old_text, new_text, count);
}

Result<Value> indent(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"width", "first", "blank"}));
  if (input.string() == nullptr) return wrong_type("a string", input);
  MarkedText prefix;
  if (bound.find(0) != nullptr && bound.at(0).string() != nullptr) {
    prefix = *bound.at(0).string();
  } else {
    KVASIR_TRY(const int64_t width, bound.integer(0, 4));
    const auto spaces = static_cast<size_t>(std::max<int64_t>(width, 0));
    KVASIR_TRY_VOID(runtime.check_text_size(spaces));
    prefix = MarkedText(std::string(spaces, ' '), Origin::kTemplate);
  }
  const Origin origin = both(prefix.origin(), input.string()->origin());
  MarkedText text = *input.string();
  text.append("\n", Origin::kTemplate);
  KVASIR_TRY(const Value lines, split_lines(runtime, text, false));
  TextBuilder builder(runtime);
  bool is_first = true;
  for (const Value& line : lines.sequence()->items) {
    const std::string& content = line.string()->text();
    const bool was_first = std::exchange(is_first, false);
    if (!was_first) KVASIR_TRY_VOID(builder.append("\n", origin));
    const bool wanted = was_first ? bound.flag(1) : bound.flag(2) || !content.empty();
    if (wanted) KVASIR_TRY_VOID(builder.append(prefix.text(), origin));
    KVASIR_TRY_VOID(builder.append(content, origin));
  }
  return runtime.text(builder.take());
}

Result<Value> center(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"width"}));
  KVASIR_TRY(const int64_t width, bound.integer(0, 80));
  KVASIR_TRY(const Value text, as_string(runtime, input, {}));
  return find_string_method("center")(runtime, text, {{Value(width)}, {}});
}

Result<Value> truncate(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound,
             BoundArguments::bind(arguments, {"length", "killwords", "end", "leeway"}));
  KVASIR_TRY(const int64_t length, bound.integer(0, 255));
  KVASIR_TRY(const MarkedText end, bound.text(2, "..."));
  KVASIR_TRY(const int64_t leeway, bound.is_given(3) ? bound.integer(3, 5) : 5);
  KVASIR_TRY(const size_t size, templates::length(runtime, input));
  const auto characters = static_cast<int64_t>(size);
  const auto end_characters = static_cast<int64_t>(count_characters(end.text()));
  if (length < end_characters || leeway < 0)
    return Error::invalid("truncate: a length is too small");
  if (characters <= length || characters - length <= leeway) return input;
  if (input.string() == nullptr) return wrong_type("a string", input);
  const MarkedText& text = *input.string();
  const size_t kept = byte_of_character(text.text(), static_cast<size_t>(length - end_characters));
  size_t cut = kept;
  if (!bound.flag(1)) {
    const size_t space = std::string_view(text.text()).substr(0, kept).rfind(' ');
    if (space != std::string::npos) cut = space;
  }
  TextBuilder builder(runtime);
  KVASIR_TRY_VOID(builder.append(text.part(0, cut)));
  KVASIR_TRY_VOID(builder.append(end));
  return runtime.text(builder.take());
}

Result<Value> format(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (!arguments.named.empty()) return Error::unsupported("format by names is not supported");
  KVASIR_TRY(const MarkedText text, to_text(runtime, input));
  KVASIR_TRY(const Value values, runtime.tuple(arguments.positional));
  return printf_formatted(runtime, text, values);
}

Result<Value> join(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"d", "attribute"}));
  MarkedText separator;
  if (bound.find(0) != nullptr) {
    KVASIR_TRY(separator, to_text(runtime, bound.at(0)));
  }
  if (!bound.is_given(1)) return joined(runtime, separator, input, true);
  KVASIR_TRY(const Value items, call_map_attribute(runtime, input, bound.at(1)));
  return joined(runtime, separator, items, true);
}

// As the tojson that published templates are written for: json.dumps with ensure_ascii off.
Result<Value> tojson(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"ensure_ascii", "indent",
                                                                "separators", "sort_keys"}));
  JsonStyle style;
  style.is_ascii = bound.flag(0);
  style.sorts_keys = bound.flag(3);
  if (bound.is_given(1)) {
    if (const MarkedText* prefix = bound.at(1).string()) {
      style.indent = prefix->text();
    } else {
      KVASIR_TRY(const int64_t width, bound.integer(1, 0));
      const auto spaces = static_cast<size_t>(std::max<int64_t>(width, 0));
      KVASIR_TRY_VOID(runtime.check_text_size(spaces));
      style.indent = std::string(spaces, ' ');
    }
    style.item_separator = std::string(",");
  }
  if (bound.is_given(2)) {
    const Sequence* separators = bound.at(2).sequence();
    if (separators == nullptr || separators->items.size() != 2 ||
        separators->items[0].string() == nullptr || separators->items[1].string() == nullptr) {
      return Error::invalid("tojson: separators are two strings");
    }
    style.item_separator = separators->items[0].string()->text();
    style.key_separator = separators->items[1].string()->text();
  }
  KVASIR_TRY(MarkedText json, to_json(runtime, input, style));
  return runtime.text(std::move(json));
}

constexpr NamedFilter kFilters[] = {
    {"capitalize", transformed<capitalized>},
    {"center", center},
    {"e", transformed<html_escaped>},
    {"escape", transformed<html_escaped>},
    {"forceescape", transformed<html_escaped>},
    {"format", format},
    {"indent", indent},
    {"join", join},
    {"lower", transformed<to_lower>},
    {"replace", replace},
    {"safe", as_string},
    {"string", as_string},
    {"title", transformed<titled_words>},
    {"tojson", tojson},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", transformed<to_upper>},
};

}  // namespace

std::span<const NamedFilter> text_filters() {
  return kFilters;
}

}  // namespace kvasir::text::templates
