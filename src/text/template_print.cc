#include "text/template_print.h"

#include <algorithm>
#include <cmath>

#include "text/template_characters.h"
#include "text/template_operators.h"

namespace kvasir::text::templates {
namespace {

// Text being made of many values. It counts as data as soon as one string in it does.
class Printer {
 public:
  explicit Printer(Runtime& runtime) : runtime_(runtime) {}

  MarkedText take() { return MarkedText(std::move(out_), origin_); }

  Result<void> repr(const Value& value) {
    KVASIR_TRY(const auto nested, runtime_.nest());
    KVASIR_TRY_VOID(runtime_.spend(1));
    if (const MarkedText* text = value.string()) return quote(*text);
    if (const Sequence* sequence = value.sequence()) return sequence_repr(*sequence);
    if (const Dict* dict = value.dict()) return dict_repr(*dict);
    if (const Namespace* space = value.space()) return namespace_repr(*space);
    if (const double* floating = value.floating()) return put(float_text(*floating));
    if (const bool* flag = value.boolean()) return put(*flag ? "True" : "False");
    if (const auto integer = value.integer()) return put(fmt::format("{}", *integer));
    if (value.is_none()) return put("None");
    if (value.is_undefined()) return put("Undefined");
    if (const Loop* loop = value.loop()) {
      return put(fmt::format("<LoopContext {}/{}>", loop->index0 + 1, loop->items->items.size()));
    }
    return put("<function>");
  }

  Result<void> json(const Value& value, const JsonStyle& style, size_t level) {
    KVASIR_TRY(const auto nested, runtime_.nest());
    KVASIR_TRY_VOID(runtime_.spend(1));
    if (const MarkedText* text = value.string()) return json_string(*text, style);
    if (const bool* flag = value.boolean()) return put(*flag ? "true" : "false");
    if (value.is_none()) return put("null");
    if (value.is_number()) return put(json_number(value));
    if (const Dict* dict = value.dict()) return json_dict(*dict, style, level);
    const Sequence* sequence = value.sequence();
    if (sequence != nullptr && sequence->flavor <= Sequence::Flavor::kTuple) {
      return json_list(*sequence, style, level);
    }
    if (value.is_undefined()) {
      return Error::invalid("{}, so it cannot become JSON", *std::get<Undefined>(value.data()).why);
    }
    return Error::invalid("'{}' cannot become JSON", value.type_name());
  }

 private:
  Result<void> put(std::string_view text) {
    KVASIR_TRY_VOID(runtime_.check_text_size(out_.size() + text.size()));
    out_ += text;
    return {};
  }

  // -------- Python

  Result<void> quote(const MarkedText& marked) {
    origin_ = both(origin_, marked.origin());
    const std::string& text = marked.text();
    KVASIR_TRY_VOID(runtime_.spend_bytes(text.size()));
    const bool has_single = text.find('\'') != std::string::npos;
    const char quote = has_single && text.find('"') == std::string::npos ? '"' : '\'';
    std::string quoted(1, quote);
    for (size_t at = 0, next = 0; at < text.size(); at = next) {
      const char32_t code = character_at(text, at, next);
      if (code == static_cast<char32_t>(quote) || code == '\\') {
        quoted += '\\';
        quoted += static_cast<char>(code);
      } else if (code == '\n') {
        quoted += "\\n";
      } else if (code == '\r') {
        quoted += "\\r";
      } else if (code == '\t') {
        quoted += "\\t";
      } else if (is_printable(code)) {
        quoted.append(text, at, next - at);
      } else if (code < 0x100) {
        quoted += fmt::format("\\x{:02x}", static_cast<uint32_t>(code));
      } else if (code < 0x10000) {
        quoted += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
      } else {
        quoted += fmt::format("\\U{:08x}", static_cast<uint32_t>(code));
      }
    }
    return put(quoted += quote);
  }

  Result<void> items_repr(const std::vector<Value>& items) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) KVASIR_TRY_VOID(put(", "));
      KVASIR_TRY_VOID(repr(items[i]));
    }
    return {};
  }
  Result<void> sequence_repr(const Sequence& sequence) {
    using Flavor = Sequence::Flavor;
    if (sequence.flavor == Flavor::kGenerator) return put("<generator>");
    if (sequence.flavor == Flavor::kRange) {
      const auto& range = sequence.range;
      if (range.step == 1) return put(fmt::format("range({}, {})", range.start, range.stop));
      return put(fmt::format("range({}, {}, {})", range.start, range.stop, range.step));
    }
    if (sequence.flavor == Flavor::kTuple) {
      KVASIR_TRY_VOID(put("("));
      KVASIR_TRY_VOID(items_repr(sequence.items));
      return put(sequence.items.size() == 1 ? ",)" : ")");
    }
    const bool is_list = sequence.flavor == Flavor::kList;
    if (sequence.flavor == Flavor::kKeys) KVASIR_TRY_VOID(put("dict_keys("));
    if (sequence.flavor == Flavor::kValues) KVASIR_TRY_VOID(put("dict_values("));
    if (sequence.flavor == Flavor::kItems) KVASIR_TRY_VOID(put("dict_items("));
    KVASIR_TRY_VOID(put("["));
    KVASIR_TRY_VOID(items_repr(sequence.items));
    return put(is_list ? "]" : "])");
  }
  Result<void> dict_repr(const Dict& dict) {
    KVASIR_TRY_VOID(put("{"));
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      if (i > 0) KVASIR_TRY_VOID(put(", "));
      KVASIR_TRY_VOID(repr(dict.entries[i].first));
      KVASIR_TRY_VOID(put(": "));
      KVASIR_TRY_VOID(repr(dict.entries[i].second));
    }
    return put("}");
  }
  Result<void> namespace_repr(const Namespace& space) {
    KVASIR_TRY_VOID(put("<Namespace {"));
    bool is_first = true;
    for (const auto& [name, value] : space.attributes) {
      if (!std::exchange(is_first, false)) KVASIR_TRY_VOID(put(", "));
      KVASIR_TRY_VOID(quote(MarkedText(name, Origin::kTemplate)));
      KVASIR_TRY_VOID(put(": "));
      KVASIR_TRY_VOID(repr(value));
    }
    return put("}>");
  }

  // -------- JSON

  static std::string json_number(const Value& value) {
    const double* floating = value.floating();
    if (floating == nullptr) return fmt::format("{}", *value.integer());
    if (std::isnan(*floating)) return "NaN";
    if (std::isinf(*floating)) return *floating > 0 ? "Infinity" : "-Infinity";
    return float_text(*floating);
  }

  Result<void> json_string(const MarkedText& marked, const JsonStyle& style) {
    origin_ = both(origin_, marked.origin());
    const std::string& text = marked.text();
    KVASIR_TRY_VOID(runtime_.spend_bytes(text.size()));
    std::string quoted = "\"";
    for (size_t at = 0, next = 0; at < text.size(); at = next) {
      const char32_t code = character_at(text, at, next);
      static constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b";
      static constexpr std::string_view kEscapes = "\"\\nrtfb";
      const size_t escape =
          code < 0x80 ? kEscaped.find(static_cast<char>(code)) : std::string::npos;
      if (escape != std::string::npos) {
        quoted += '\\';
        quoted += kEscapes[escape];
      } else if (code >= 0x20 && (code < 0x7F || !style.is_ascii)) {
        quoted.append(text, at, next - at);
      } else if (code < 0x10000) {
        quoted += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
      } else {
        const auto rest = static_cast<uint32_t>(code) - 0x10000;
        quoted += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
      }
    }
    return put(quoted += '"');
  }

  Result<void> new_line(const JsonStyle& style, size_t level) {
    if (!style.indent) return {};
    KVASIR_TRY_VOID(put("\n"));
    for (size_t i = 0; i < level; ++i) KVASIR_TRY_VOID(put(*style.indent));
    return {};
  }
  Result<void> json_list(const Sequence& sequence, const JsonStyle& style, size_t level) {
    if (sequence.items.empty()) return put("[]");
    KVASIR_TRY_VOID(put("["));
    bool is_first = true;
    for (const Value& item : sequence.items) {
      if (!std::exchange(is_first, false)) KVASIR_TRY_VOID(put(style.item_separator));
      KVASIR_TRY_VOID(new_line(style, level + 1));
      KVASIR_TRY_VOID(json(item, style, level + 1));
    }
    KVASIR_TRY_VOID(new_line(style, level));
    return put("]");
  }
  Result<void> json_key(const Value& key, const JsonStyle& style) {
    if (const MarkedText* text = key.string()) return json_string(*text, style);
    if (key.is_none()) return put("\"null\"");
    if (const bool* flag = key.boolean()) return put(*flag ? "\"true\"" : "\"false\"");
    if (key.is_number()) return put(fmt::format("\"{}\"", json_number(key)));
    return Error::invalid("'{}' cannot be a key of a JSON object", key.type_name());
  }
  Result<void> json_dict(const Dict& dict, const JsonStyle& style, size_t level) {
    if (dict.entries.empty()) return put("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style.sorts_keys) {
      for (const auto* entry : entries) {
        if (entry->first.string() == nullptr)
          return wrong_type("string keys to sort", entry->first);
      }
      std::stable_sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
        return a->first.string()->text() < b->first.string()->text();
      });
    }
    KVASIR_TRY_VOID(put("{"));
    bool is_first = true;
    for (const auto* entry : entries) {
      if (!std::exchange(is_first, false)) KVASIR_TRY_VOID(put(style.item_separator));
      KVASIR_TRY_VOID(new_line(style, level + 1));
      KVASIR_TRY_VOID(json_key(entry->first, style));
      KVASIR_TRY_VOID(put(style.key_separator));
      KVASIR_TRY_VOID(json(entry->second, style, level + 1));
    }
    KVASIR_TRY_VOID(new_line(style, level));
    return put("}");
  }

  Runtime& runtime_;
  std::string out_;
  Origin origin_ = Origin::kTemplate;
};

}  // namespace

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // The shortest digits that give the value back, as Python; both write an exponent below 1e-4 and
  // from 1e16.
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

Result<MarkedText> to_text(Runtime& runtime, const Value& value) {
  if (const MarkedText* text = value.string()) return *text;
  if (value.is_undefined()) return MarkedText();
  return to_repr(runtime, value);
}

Result<MarkedText> to_repr(Runtime& runtime, const Value& value) {
  Printer printer(runtime);
  KVASIR_TRY_VOID(printer.repr(value));
  return printer.take();
}

Result<MarkedText> to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  Printer printer(runtime);
  KVASIR_TRY_VOID(printer.json(value, style, 0));
  return printer.take();
}

}  // namespace kvasir::text::templates
