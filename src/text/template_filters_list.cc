// Filters on lists, dicts and single values.
#include <algorithm>
#include <numeric>
#include <set>

#include "text/template_arguments.h"
#include "text/template_characters.h"
#include "text/template_filter_groups.h"
#include "text/template_filters.h"
#include "text/template_methods.h"
#include "text/template_operators.h"

namespace kvasir::text::templates {
namespace {

// -------- by attribute

// "a.0.b" of an item: items of items, numbers as numbers. Absent: the item itself.
class AttributePath {
 public:
  static Result<AttributePath> parse(Runtime& runtime, const Value* attribute) {
    AttributePath path;
    if (attribute == nullptr || attribute->is_none()) return path;
    const MarkedText* text = attribute->string();
    if (text == nullptr) {
      path.parts_.push_back(*attribute);
      return path;
    }
    std::string_view rest = text->text();
    for (;;) {
      const size_t dot = std::min(rest.find('.'), rest.size());
      const std::string_view part = rest.substr(0, dot);
      const bool is_number = !part.empty() && part.size() <= 18 &&
                             part.find_first_not_of("0123456789") == std::string_view::npos;
      if (is_number) {
        path.parts_.emplace_back(static_cast<int64_t>(std::stoll(std::string(part))));
      } else {
        KVASIR_TRY(Value name, runtime.text(std::string(part), Origin::kTemplate));
        path.parts_.push_back(std::move(name));
      }
      if (dot == rest.size()) return path;
      rest.remove_prefix(dot + 1);
    }
  }
  // `default_value` takes the place of what is undefined on the way; nullptr: nothing does.
  Result<Value> of(Runtime& runtime, Value item, const Value* default_value = nullptr) const {
    for (const Value& part : parts_) {
      KVASIR_TRY(item, subscript(runtime, item, part));
      if (item.is_undefined() && default_value != nullptr) item = *default_value;
    }
    return item;
  }

 private:
  std::vector<Value> parts_;
};

Result<Value> without_case(Runtime& runtime, Value value) {
  const MarkedText* text = value.string();
  if (text == nullptr) return value;
  return runtime.text(to_lower(text->text()), text->origin());
}

// -------- order

// Stable. The places of the items in their order by `keys`.
Result<std::vector<size_t>> sorted_places(Runtime& runtime, const std::vector<Value>& keys,
                                          bool is_reverse) {
  std::vector<size_t> places(keys.size());
  std::iota(places.begin(), places.end(), size_t{0});
  std::vector<size_t> merged(keys.size());
  for (size_t width = 1; width < keys.size(); width *= 2) {
    for (size_t begin = 0; begin < keys.size(); begin += 2 * width) {
      size_t left = begin, right = std::min(begin + width, keys.size());
      const size_t left_end = right, right_end = std::min(begin + 2 * width, keys.size());
      for (size_t out = begin; out < right_end; ++out) {
        bool takes_right = left == left_end;
        if (!takes_right && right < right_end) {
          const Value& a = keys[places[left]];
          const Value& b = keys[places[right]];
          KVASIR_TRY(const auto found, is_reverse ? order(runtime, a, b) : order(runtime, b, a));
          takes_right = found < 0;
        }
        merged[out] = takes_right ? places[right++] : places[left++];
      }
    }
    places.swap(merged);
  }
  return places;
}

Result<Value> sort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound,
             BoundArguments::bind(arguments, {"reverse", "case_sensitive", "attribute"}));
  KVASIR_TRY(const auto items, iterate(runtime, input));
  // "a,b": first by a, then by b.
  std::vector<AttributePath> paths;
  if (bound.is_given(2) && bound.at(2).string() != nullptr) {
    std::string_view rest = bound.at(2).string()->text();
    for (;;) {
      const size_t comma = std::min(rest.find(','), rest.size());
      KVASIR_TRY(const Value name, runtime.text(std::string(rest.substr(0, comma)), Origin::kData));
      KVASIR_TRY(AttributePath path, AttributePath::parse(runtime, &name));
      paths.push_back(std::move(path));
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
  } else {
    KVASIR_TRY(AttributePath path, AttributePath::parse(runtime, bound.find(2)));
    paths.push_back(std::move(path));
  }
  std::vector<Value> keys;
  for (const Value& item : items->items) {
    std::vector<Value> parts;
    for (const AttributePath& path : paths) {
      KVASIR_TRY(Value part, path.of(runtime, item));
      if (!bound.flag(1)) {
        KVASIR_TRY(part, without_case(runtime, std::move(part)));
      }
      parts.push_back(std::move(part));
    }
    KVASIR_TRY(Value key, runtime.list(std::move(parts)));
    keys.push_back(std::move(key));
  }
  KVASIR_TRY(const auto places, sorted_places(runtime, keys, bound.flag(0)));
  std::vector<Value> sorted;
  for (const size_t place : places) sorted.push_back(items->items[place]);
  return runtime.list(std::move(sorted));
}

Result<Value> dictsort(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound,
             BoundArguments::bind(arguments, {"case_sensitive", "by", "reverse"}));
  KVASIR_TRY(const MarkedText by, bound.text(1, "key"));
  if (by.text() != "key" && by.text() != "value") {
    return Error::invalid("dictsort: by is key or value");
  }
  const Dict* dict = input.dict();
  if (dict == nullptr) return wrong_type("a dict", input);
  std::vector<Value> keys;
  for (const auto& [key, value] : dict->entries) {
    Value sort_key = by.text() == "key" ? key : value;
    if (!bound.flag(0)) {
      KVASIR_TRY(sort_key, without_case(runtime, std::move(sort_key)));
    }
    keys.push_back(std::move(sort_key));
  }
  KVASIR_TRY(const auto places, sorted_places(runtime, keys, bound.flag(2)));
  std::vector<Value> pairs;
  for (const size_t place : places) {
    KVASIR_TRY(Value pair,
               runtime.tuple({dict->entries[place].first, dict->entries[place].second}));
    pairs.push_back(std::move(pair));
  }
  return runtime.list(std::move(pairs));
}

template <bool kSmallest>
Result<Value> extreme(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"case_sensitive", "attribute"}));
  KVASIR_TRY(const auto items, iterate(runtime, input));
  KVASIR_TRY(const AttributePath path, AttributePath::parse(runtime, bound.find(1)));
  if (items->items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const Value* best = nullptr;
  Value best_key;
  for (const Value& item : items->items) {
    KVASIR_TRY(Value key, path.of(runtime, item));
    if (!bound.flag(0)) {
      KVASIR_TRY(key, without_case(runtime, std::move(key)));
    }
    if (best != nullptr) {
      KVASIR_TRY(const auto found, order(runtime, key, best_key));
      if (kSmallest ? !(found < 0) : !(found > 0)) continue;
    }
    best = &item;
    best_key = std::move(key);
  }
  return *best;
}

Result<Value> unique(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"case_sensitive", "attribute"}));
  KVASIR_TRY(const auto items, iterate(runtime, input));
  KVASIR_TRY(const AttributePath path, AttributePath::parse(runtime, bound.find(1)));
  std::set<std::string> seen;
  std::vector<Value> kept;
  for (const Value& item : items->items) {
    KVASIR_TRY(Value key, path.of(runtime, item));
    if (!bound.flag(0)) {
      KVASIR_TRY(key, without_case(runtime, std::move(key)));
    }
    KVASIR_TRY(std::string hash, hash_key(runtime, key));
    if (seen.insert(std::move(hash)).second) kept.push_back(item);
  }
  return runtime.generator(std::move(kept));
}

// -------- map, select, reject

Result<Arguments> without_first(const Arguments& arguments, size_t count) {
  if (arguments.positional.size() < count) return Error::invalid("an argument is missing");
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return rest;
}

Result<Value> map_attribute(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"attribute", "default"}, 1));
  KVASIR_TRY(const AttributePath path, AttributePath::parse(runtime, bound.find(0)));
  KVASIR_TRY(const auto items, iterate(runtime, input));
  std::vector<Value> mapped;
  for (const Value& item : items->items) {
    KVASIR_TRY(Value value, path.of(runtime, item, bound.is_given(1) ? bound.find(1) : nullptr));
    mapped.push_back(std::move(value));
  }
  return runtime.generator(std::move(mapped));
}

Result<Value> map(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (!is_true(input)) return runtime.generator({});
  if (arguments.positional.empty()) {
    const bool by_attribute =
        std::any_of(arguments.named.begin(), arguments.named.end(),
                    [](const auto& named) { return named.first == "attribute"; });
    if (!by_attribute) return Error::invalid("map needs a filter's name or an attribute");
    return map_attribute(runtime, input, arguments);
  }
  const MarkedText* name = arguments.positional[0].string();
  if (name == nullptr) return wrong_type("a filter's name", arguments.positional[0]);
  KVASIR_TRY(const Arguments rest, without_first(arguments, 1));
  KVASIR_TRY(const auto items, iterate(runtime, input));
  std::vector<Value> mapped;
  for (const Value& item : items->items) {
    KVASIR_TRY(Value value, call_filter(runtime, name->text(), item, rest));
    mapped.push_back(std::move(value));
  }
  return runtime.generator(std::move(mapped));
}

enum class Keep : uint8_t { kMatching, kOthers };
enum class Look : uint8_t { kAtItem, kAtAttribute };
template <Keep kKeep, Look kLook>
Result<Value> select(Runtime& runtime, const Value& input, const Arguments& arguments) {
  if (!is_true(input)) return runtime.generator({});
  constexpr size_t kSkipped = kLook == Look::kAtAttribute ? 1 : 0;
  AttributePath path;
  if (kLook == Look::kAtAttribute) {
    if (arguments.positional.empty()) return Error::invalid("the attribute's name is missing");
    KVASIR_TRY(path, AttributePath::parse(runtime, arguments.positional.data()));
  }
  const MarkedText* test = nullptr;
  Arguments test_arguments;
  if (arguments.positional.size() > kSkipped) {
    test = arguments.positional[kSkipped].string();
    if (test == nullptr) return wrong_type("a test's name", arguments.positional[kSkipped]);
    KVASIR_TRY(test_arguments, without_first(arguments, kSkipped + 1));
  }
  KVASIR_TRY(const auto items, iterate(runtime, input));
  std::vector<Value> kept;
  for (const Value& item : items->items) {
    KVASIR_TRY_VOID(runtime.spend(1));
    KVASIR_TRY(const Value looked_at, path.of(runtime, item));
    bool matches = false;
    if (test == nullptr) {
      matches = is_true(looked_at);
    } else {
      KVASIR_TRY(matches, call_test(runtime, test->text(), looked_at, test_arguments));
    }
    if (matches == (kKeep == Keep::kMatching)) kept.push_back(item);
  }
  return runtime.generator(std::move(kept));
}

// -------- the rest

Result<Value> as_list(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {}));
  KVASIR_TRY(const auto items, iterate(runtime, input));
  return runtime.list(items->items);
}

Result<Value> count(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {}));
  KVASIR_TRY(const size_t items, length(runtime, input));
  return Value(static_cast<int64_t>(items));
}

Result<Value> first(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {}));
  if (input.string() != nullptr && !input.string()->empty()) {
    return subscript(runtime, input, Value(int64_t{0}));
  }
  KVASIR_TRY(const auto items, iterate(runtime, input));
  if (items->items.empty()) return Value::undefined("No first item, sequence was empty.");
  return items->items.front();
}

Result<Value> last(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {}));
  if (input.string() != nullptr && !input.string()->empty()) {
    return subscript(runtime, input, Value(int64_t{-1}));
  }
  if (input.sequence() != nullptr && input.sequence()->flavor == Sequence::Flavor::kGenerator) {
    return Error::invalid("a generator has no last item; make a list of it first");
  }
  KVASIR_TRY(const auto items, iterate(runtime, input));
  if (items->items.empty()) return Value::undefined("No last item, sequence was empty.");
  return items->items.back();
}

Result<Value> reverse(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {}));
  if (input.string() != nullptr) {
    return slice(runtime, input, Value(), Value(), Value(int64_t{-1}));
  }
  KVASIR_TRY(const auto items, iterate(runtime, input));
  std::vector<Value> reversed(items->items.rbegin(), items->items.rend());
  return runtime.generator(std::move(reversed));
}

Result<Value> items(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {}));
  std::vector<Value> pairs;
  if (const Dict* dict = input.dict()) {
    for (const auto& [key, value] : dict->entries) {
      KVASIR_TRY(Value pair, runtime.tuple({key, value}));
      pairs.push_back(std::move(pair));
    }
  } else if (!input.is_undefined()) {
    return wrong_type("a dict", input);
  }
  return runtime.generator(std::move(pairs));
}

Result<Value> default_to(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"default_value", "boolean"}));
  if (!input.is_undefined() && (!bound.flag(1) || is_true(input))) return input;
  if (bound.find(0) != nullptr) return bound.at(0);
  return runtime.text(MarkedText());
}

Result<Value> attribute_only(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"name"}, 1));
  KVASIR_TRY(const MarkedText name, bound.text(0, ""));
  if (input.is_undefined()) return undefined_error(input);
  KVASIR_TRY(std::optional<Value> found, python_attribute(runtime, input, name.text()));
  if (found) return std::move(*found);
  return Value::undefined(fmt::format("'{}' has no such attribute", input.type_name()));
}

Result<Value> sum(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"attribute", "start"}));
  KVASIR_TRY(const AttributePath path, AttributePath::parse(runtime, bound.find(0)));
  KVASIR_TRY(const auto items_of_input, iterate(runtime, input));
  Value total = bound.find(1) != nullptr ? bound.at(1) : Value(int64_t{0});
  if (total.string() != nullptr) return wrong_type("a number to start with", total);
  for (const Value& item : items_of_input->items) {
    KVASIR_TRY(const Value value, path.of(runtime, item));
    KVASIR_TRY(total, apply(runtime, ast::BinaryOp::kAdd, total, value));
  }
  return total;
}

Result<Value> batch(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"linecount", "fill_with"}, 1));
  KVASIR_TRY(const int64_t size, bound.integer(0, 0));
  if (size <= 0) return Error::invalid("batch: the size is not positive");
  KVASIR_TRY(const auto all, iterate(runtime, input));
  std::vector<Value> batches;
  const auto step = static_cast<size_t>(size);
  for (size_t begin = 0; begin < all->items.size(); begin += std::min(step, all->items.size())) {
    const size_t end = begin + std::min(step, all->items.size() - begin);
    std::vector<Value> part(all->items.begin() + static_cast<std::ptrdiff_t>(begin),
                            all->items.begin() + static_cast<std::ptrdiff_t>(end));
    if (bound.is_given(1) && part.size() < step) {
      KVASIR_TRY_VOID(runtime.check_item_count(step));
      part.resize(step, bound.at(1));
    }
    KVASIR_TRY(Value list, runtime.list(std::move(part)));
    batches.push_back(std::move(list));
  }
  return runtime.generator(std::move(batches));
}

constexpr NamedFilter kFilters[] = {
    {"attr", attribute_only},
    {"batch", batch},
    {"count", count},
    {"d", default_to},
    {"default", default_to},
    {"dictsort", dictsort},
    {"first", first},
    {"items", items},
    {"last", last},
    {"length", count},
    {"list", as_list},
    {"map", map},
    {"max", extreme<false>},
    {"min", extreme<true>},
    {"reject", select<Keep::kOthers, Look::kAtItem>},
    {"rejectattr", select<Keep::kOthers, Look::kAtAttribute>},
    {"reverse", reverse},
    {"select", select<Keep::kMatching, Look::kAtItem>},
    {"selectattr", select<Keep::kMatching, Look::kAtAttribute>},
    {"sort", sort},
    {"sum", sum},
    {"unique", unique},
};

}  // namespace

std::span<const NamedFilter> list_filters() {
  return kFilters;
}

Result<Value> call_map_attribute(Runtime& runtime, const Value& input, const Value& attribute) {
  return map_attribute(runtime, input, {{attribute}, {}});
}

}  // namespace kvasir::text::templates
