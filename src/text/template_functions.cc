#include "text/template_functions.h"

#include <algorithm>
#include <ctime>

#include "text/template_arguments.h"
#include "text/template_characters.h"
#include "text/template_operators.h"
#include "text/template_print.h"

namespace kvasir::text::templates {
namespace {

Result<Value> range(Runtime& runtime, const Value&, const Arguments& arguments) {
  if (!arguments.named.empty()) return Error::invalid("range() takes no named arguments");
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"start", "stop", "step"}, 1));
  Sequence::Range range;
  KVASIR_TRY(range.step, bound.integer(2, 1));
  if (bound.find(1) == nullptr) {
    KVASIR_TRY(range.stop, bound.integer(0, 0));
  } else {
    KVASIR_TRY(range.start, bound.integer(0, 0));
    KVASIR_TRY(range.stop, bound.integer(1, 0));
  }
  if (range.step == 0) return Error::invalid("range() needs a step other than zero");
  // In 128 bits nothing here overflows.
  __extension__ using Wide = __int128;
  const Wide distance =
      range.step > 0 ? Wide{range.stop} - range.start : Wide{range.start} - range.stop;
  const Wide stride = range.step > 0 ? Wide{range.step} : -Wide{range.step};
  const Wide count = distance > 0 ? (distance - 1) / stride + 1 : 0;
  const auto items_max = static_cast<Wide>(runtime.limits().items_max);
  KVASIR_TRY_VOID(runtime.check_item_count(static_cast<size_t>(std::min(count, items_max + 1))));
  KVASIR_TRY_VOID(runtime.spend(static_cast<size_t>(count)));
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(count));
  for (Wide i = 0; i < count; ++i) {
    items.emplace_back(static_cast<int64_t>(range.start + i * range.step));
  }
  KVASIR_TRY(Value result, runtime.sequence(Sequence::Flavor::kRange, std::move(items)));
  result.sequence()->range = range;
  return result;
}

// The entries of dict(mapping or pairs, name=value, ...).
Result<Value> make_dict(Runtime& runtime, const Value&, const Arguments& arguments) {
  if (arguments.positional.size() > 1) return Error::invalid("dict() takes one argument at most");
  std::vector<std::pair<Value, Value>> entries;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (const Dict* dict = source.dict()) {
      entries = dict->entries;
    } else {
      KVASIR_TRY(const auto pairs, iterate(runtime, source));
      for (const Value& pair : pairs->items) {
        KVASIR_TRY(const auto both_items, iterate(runtime, pair));
        if (both_items->items.size() != 2) return Error::invalid("dict() needs pairs");
        entries.emplace_back(both_items->items[0], both_items->items[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) {
    KVASIR_TRY(Value key, runtime.text(name, Origin::kTemplate));
    entries.emplace_back(std::move(key), value);
  }
  return runtime.dict(std::move(entries));
}

Result<Value> make_namespace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  KVASIR_TRY(const Value dict, make_dict(runtime, self, arguments));
  const Value space = runtime.new_namespace();
  for (const auto& [key, value] : dict.dict()->entries) {
    if (key.string() == nullptr) return wrong_type("names as keys", key);
    space.space()->attributes.insert_or_assign(key.string()->text(), value);
  }
  return space;
}

Result<Value> raise_exception(Runtime& runtime, const Value&, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"message"}, 1));
  KVASIR_TRY(const MarkedText message, to_text(runtime, bound.at(0)));
  constexpr size_t kShownBytesMax = 4096;
  return Error::invalid(
      "{}", message.text().substr(0, message.size() <= kShownBytesMax
                                         ? message.size()
                                         : byte_of_character(message.text(), kShownBytesMax / 4)));
}

Result<Value> strftime_now(Runtime& runtime, const Value&, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"format"}, 1));
  KVASIR_TRY(const MarkedText format, bound.text(0, ""));
  const auto seconds = static_cast<std::time_t>(runtime.time_unix_s());
  std::tm time = {};
  if (::gmtime_r(&seconds, &time) == nullptr) return Error::invalid("the time is out of range");
  const std::string& text = format.text();
  TextBuilder builder(runtime);
  for (size_t at = 0; at < text.size();) {
    const size_t percent = std::min(text.find('%', at), text.size());
    KVASIR_TRY_VOID(builder.append(format.part(at, percent)));
    if (percent == text.size()) break;
    // "%d", or glibc's "%-d". One at a time, so that nothing is longer than the buffer.
    static constexpr std::string_view kFlags = "-_0^#";
    static constexpr std::string_view kKnown = "aAbBcCdDeFgGhHIjklmMnpPrRStTuUVwWxXyY%";
    size_t end = percent + 1;
    if (end < text.size() && kFlags.find(text[end]) != std::string_view::npos) ++end;
    const char letter = end < text.size() ? text[end] : '\0';
    ++end;
    if (kKnown.find(letter) != std::string_view::npos) {
      char buffer[128];
      const std::string directive = text.substr(percent, end - percent);
      const size_t bytes = std::strftime(buffer, sizeof buffer, directive.c_str(), &time);
      KVASIR_TRY_VOID(builder.append(std::string_view(buffer, bytes), format.origin()));
    } else if (letter == 'f') {
      KVASIR_TRY_VOID(builder.append("000000", format.origin()));
    } else if (letter != 'z' && letter != 'Z') {  // of which this time has none
      return Error::unsupported("strftime_now: an unknown directive in '{}'", text.substr(0, 64));
    }
    at = end;
  }
  return runtime.text(builder.take());
}

}  // namespace

NativeFunction find_function(std::string_view name) {
  if (name == "range") return range;
  if (name == "dict") return make_dict;
  if (name == "namespace") return make_namespace;
  if (name == "raise_exception") return raise_exception;
  if (name == "strftime_now") return strftime_now;
  return nullptr;
}

}  // namespace kvasir::text::templates
