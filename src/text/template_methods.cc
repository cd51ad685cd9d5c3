#include "text/template_methods.h"

#include <algorithm>
#include <cmath>

#include "text/template_arguments.h"
#include "text/template_operators.h"
#include "text/template_print.h"
#include "text/template_strings.h"

namespace kvasir::text::templates {
namespace {

// -------- dicts

Result<Value> dict_get(Runtime& runtime, const Value& self, const Arguments& arguments) {
  if (!arguments.named.empty()) return Error::invalid("get() takes no named arguments");
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"key", "default"}, 1));
  KVASIR_TRY(const std::string key, hash_key(runtime, bound.at(0)));
  if (const Value* found = self.dict()->find(key)) return *found;
  return bound.find(1) != nullptr ? bound.at(1) : Value();
}

enum class View : uint8_t { kKeys, kValues, kItems };
template <View kView>
Result<Value> dict_view(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {}));
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->entries) {
    if (kView == View::kItems) {
      KVASIR_TRY(Value pair, runtime.tuple({key, value}));
      items.push_back(std::move(pair));
    } else {
      items.push_back(kView == View::kKeys ? key : value);
    }
  }
  const auto flavor = kView == View::kKeys     ? Sequence::Flavor::kKeys
                      : kView == View::kValues ? Sequence::Flavor::kValues
                                               : Sequence::Flavor::kItems;
  return runtime.sequence(flavor, std::move(items));
}

Result<Value> copy(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {}));
  KVASIR_TRY_VOID(runtime.spend(1));
  return self;  // nothing can change it
}

NativeFunction find_dict_method(std::string_view name) {
  if (name == "get") return dict_get;
  if (name == "items") return dict_view<View::kItems>;
  if (name == "keys") return dict_view<View::kKeys>;
  if (name == "values") return dict_view<View::kValues>;
  if (name == "copy") return copy;
  return nullptr;
}

// -------- lists

Result<Value> list_index(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"value"}, 1));
  const auto& items = self.sequence()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    KVASIR_TRY(const bool same, equal(runtime, items[i], bound.at(0)));
    if (same) return Value(static_cast<int64_t>(i));
  }
  return Error::invalid("the list has no such item");
}

Result<Value> list_count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"value"}, 1));
  int64_t count = 0;
  for (const Value& item : self.sequence()->items) {
    KVASIR_TRY(const bool same, equal(runtime, item, bound.at(0)));
    count += same ? 1 : 0;
  }
  return Value(count);
}

NativeFunction find_sequence_method(Sequence::Flavor flavor, std::string_view name) {
  if (flavor > Sequence::Flavor::kRange) return nullptr;
  if (name == "index") return list_index;
  if (name == "count") return list_count;
  if (name == "copy" && flavor == Sequence::Flavor::kList) return copy;
  return nullptr;
}

// Methods that exist in Python and that the sandbox refuses.
bool would_change(const Value& object, std::string_view name) {
  static constexpr std::string_view kOfDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  static constexpr std::string_view kOfList[] = {"append", "clear",  "extend",  "insert",
                                                 "pop",    "remove", "reverse", "sort"};
  if (object.dict() != nullptr) {
    return std::find(std::begin(kOfDict), std::end(kOfDict), name) != std::end(kOfDict);
  }
  const Sequence* sequence = object.sequence();
  return sequence != nullptr && sequence->flavor == Sequence::Flavor::kList &&
         std::find(std::begin(kOfList), std::end(kOfList), name) != std::end(kOfList);
}

// -------- loops

Result<Value> loop_cycle(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY_VOID(runtime.spend(1));
  if (arguments.positional.empty()) return Error::invalid("no items for cycling given");
  return arguments.positional[self.loop()->index0 % arguments.positional.size()];
}

Result<Value> loop_changed(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Loop& loop = *self.loop();
  bool changed = !loop.last_changed || loop.last_changed->size() != arguments.positional.size();
  for (size_t i = 0; !changed && i < arguments.positional.size(); ++i) {
    KVASIR_TRY(const bool same, equal(runtime, (*loop.last_changed)[i], arguments.positional[i]));
    changed = !same;
  }
  if (changed) loop.last_changed = arguments.positional;
  return Value(changed);
}

std::optional<Value> loop_attribute(const Loop& loop, std::string_view name) {
  const auto& items = loop.items->items;
  const auto integer = [](size_t number) { return Value(static_cast<int64_t>(number)); };
  const size_t at = loop.index0;
  if (name == "index0") return integer(at);
  if (name == "index") return integer(at + 1);
  if (name == "first") return Value(at == 0);
  if (name == "last") return Value(at + 1 >= items.size());
  if (name == "length") return integer(items.size());
  if (name == "revindex0") return integer(items.size() - at - 1);
  if (name == "revindex") return integer(items.size() - at);
  if (name == "depth0") return integer(loop.depth0);
  if (name == "depth") return integer(loop.depth0 + 1);
  if (name == "previtem") {
    return at > 0 ? items[at - 1] : Value::undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return at + 1 < items.size() ? items[at + 1] : Value::undefined("there is no next item");
  }
  return std::nullopt;
}

// -------- printf

struct Conversion {
  bool left = false, zero = false, plus = false, space = false, alternate = false;
  size_t width = 0;
  std::optional<size_t> precision;
  char type = '\0';
};

Result<size_t> read_count(std::string_view text, size_t& at) {
  size_t count = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    count = count * 10 + static_cast<size_t>(text[at] - '0');
    if (count > 10'000) return Error::limit("a format asks for more than 10,000 characters");
  }
  return count;
}

Result<Conversion> read_conversion(std::string_view text, size_t& at) {
  Conversion conversion;
  for (; at < text.size(); ++at) {
    bool* flag = text[at] == '-'   ? &conversion.left
                 : text[at] == '0' ? &conversion.zero
                 : text[at] == '+' ? &conversion.plus
                 : text[at] == ' ' ? &conversion.space
                 : text[at] == '#' ? &conversion.alternate
                                   : nullptr;
    if (flag == nullptr) break;
    *flag = true;
  }
  KVASIR_TRY(conversion.width, read_count(text, at));
  if (at < text.size() && text[at] == '.') {
    ++at;
    KVASIR_TRY(conversion.precision, read_count(text, at));
  }
  if (at == text.size()) return Error::invalid("an incomplete format");
  conversion.type = text[at++];
  return conversion;
}

Result<std::string> converted_number(const Conversion& conversion, const Value& value) {
  if (!value.is_number()) return wrong_type("a number to format", value);
  std::string digits;
  bool negative = false;
  if (conversion.type == 'f' || conversion.type == 'F') {
    const double number =
        value.floating() != nullptr ? *value.floating() : static_cast<double>(*value.integer());
    negative = std::signbit(number);
    digits = std::isfinite(number)
                 ? fmt::format("{:.{}f}", std::fabs(number), conversion.precision.value_or(6))
                 : float_text(std::fabs(number));
  } else {
    int64_t number = 0;
    if (const double* floating = value.floating()) {
      if (conversion.type != 'd' && conversion.type != 'i') return wrong_type("an integer", value);
      if (!(std::fabs(*floating) < 0x1p63)) return Error::limit("a number is out of range");
      number = static_cast<int64_t>(*floating);
    } else {
      number = *value.integer();
    }
    negative = number < 0;
    const uint64_t magnitude =
        negative ? ~static_cast<uint64_t>(number) + 1 : static_cast<uint64_t>(number);
    digits = conversion.type == 'x'   ? fmt::format("{:x}", magnitude)
             : conversion.type == 'X' ? fmt::format("{:X}", magnitude)
                                      : fmt::format("{}", magnitude);
    const size_t wanted = conversion.precision.value_or(0);
    if (digits.size() < wanted) digits.insert(0, wanted - digits.size(), '0');
  }
  std::string sign = negative ? "-" : conversion.plus ? "+" : conversion.space ? " " : "";
  if (conversion.zero && !conversion.left && digits.size() + sign.size() < conversion.width) {
    digits.insert(0, conversion.width - digits.size() - sign.size(), '0');
  }
  return sign + digits;
}

Result<MarkedText> converted(Runtime& runtime, const Conversion& conversion, const Value& value) {
  MarkedText text;
  switch (conversion.type) {
    case 's': {
      KVASIR_TRY(text, to_text(runtime, value));
      break;
    }
    case 'r': {
      KVASIR_TRY(text, to_repr(runtime, value));
      break;
    }
    case 'd':
    case 'i':
    case 'x':
    case 'X':
    case 'f':
    case 'F': {
      if (conversion.alternate) return Error::unsupported("the format flag '#' is not supported");
      KVASIR_TRY(std::string number, converted_number(conversion, value));
      return MarkedText(std::move(number), Origin::kTemplate);
    }
    default:
      return Error::unsupported("the format '%{}' is not supported", conversion.type);
  }
  if (!conversion.precision) return text;
  return text.part(0, byte_of_character(text.text(), *conversion.precision));
}

}  // namespace

Result<std::optional<Value>> python_attribute(Runtime& runtime, const Value& object,
                                              std::string_view name) {
  NativeFunction method = nullptr;
  if (object.string() != nullptr) {
    method = find_string_method(name);
  } else if (object.dict() != nullptr) {
    method = find_dict_method(name);
  } else if (const Sequence* sequence = object.sequence()) {
    method = find_sequence_method(sequence->flavor, name);
  } else if (const Namespace* space = object.space()) {
    const auto found = space->attributes.find(name);
    if (found != space->attributes.end()) return std::optional<Value>(found->second);
  } else if (const Loop* loop = object.loop()) {
    if (auto found = loop_attribute(*loop, name)) return found;
    if (name == "cycle") method = loop_cycle;
    if (name == "changed") method = loop_changed;
  }
  if (would_change(object, name)) {
    return std::optional<Value>(Value::undefined(fmt::format(
        "'{}' of '{}' would change it, which templates may not", name, object.type_name())));
  }
  if (method == nullptr) return std::optional<Value>();
  KVASIR_TRY(Value bound, runtime.function({method, object, nullptr, nullptr}));
  return std::optional<Value>(std::move(bound));
}

Result<Value> printf_formatted(Runtime& runtime, const MarkedText& format, const Value& values) {
  const Sequence* tuple = values.sequence();
  const bool is_tuple = tuple != nullptr && tuple->flavor == Sequence::Flavor::kTuple;
  const size_t count = is_tuple ? tuple->items.size() : 1;
  const std::string& text = format.text();
  TextBuilder builder(runtime);
  size_t used = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t percent = std::min(text.find('%', at), text.size());
    KVASIR_TRY_VOID(builder.append(format.part(at, percent)));
    at = percent + 1;
    if (percent == text.size()) break;
    KVASIR_TRY(const Conversion conversion, read_conversion(text, at));
    if (conversion.type == '%') {
      KVASIR_TRY_VOID(builder.append(format.part(percent, percent + 1)));
      continue;
    }
    if (used == count) return Error::invalid("not enough values for the format");
    const Value& value = is_tuple ? tuple->items[used] : values;
    ++used;
    KVASIR_TRY(const MarkedText part, converted(runtime, conversion, value));
    const size_t characters = count_characters(part.text());
    const std::string padding(conversion.width > characters ? conversion.width - characters : 0,
                              ' ');
    if (!conversion.left) KVASIR_TRY_VOID(builder.append(padding, Origin::kTemplate));
    KVASIR_TRY_VOID(builder.append(part));
    if (conversion.left) KVASIR_TRY_VOID(builder.append(padding, Origin::kTemplate));
  }
  // Something with subscripts that is not used is no mistake in Python.
  const bool may_be_unused = values.dict() != nullptr || values.is_undefined() ||
                             (values.sequence() != nullptr && !is_tuple);
  if (used < count && !may_be_unused) {
    return Error::invalid("more values than the format takes");
  }
  return runtime.text(builder.take());
}

}  // namespace kvasir::text::templates
