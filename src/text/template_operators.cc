#include "text/template_operators.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "text/template_characters.h"
#include "text/template_methods.h"
#include "text/template_print.h"

namespace kvasir::text::templates {
namespace {

using ast::BinaryOp;
using ast::CompareOp;

Error overflow() {
  return Error::limit("an integer needs more than 64 bits");
}
Error no_operator(std::string_view op, const Value& left, const Value& right) {
  if (left.is_undefined()) return undefined_error(left);
  if (right.is_undefined()) return undefined_error(right);
  return Error::invalid("'{}' does not work with '{}' and '{}'", op, left.type_name(),
                        right.type_name());
}
double as_double(const Value& value) {
  const double* floating = value.floating();
  return floating != nullptr ? *floating : static_cast<double>(*value.integer());
}

// -------- arithmetic

std::string_view spelling(BinaryOp op) {
  static constexpr std::string_view kSpellings[] = {"+", "-",  "*", "/",   "//",
                                                    "%", "**", "~", "and", "or"};
  return kSpellings[static_cast<size_t>(op)];
}

int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Result<Value> integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return Error::invalid("division by zero");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return overflow();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return overflow();
  }
  return Value(result);
}

Result<Value> integer_arithmetic(BinaryOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = false;
  switch (op) {
    case BinaryOp::kAdd:
      overflows = __builtin_add_overflow(a, b, &result);
      break;
    case BinaryOp::kSubtract:
      overflows = __builtin_sub_overflow(a, b, &result);
      break;
    case BinaryOp::kMultiply:
      overflows = __builtin_mul_overflow(a, b, &result);
      break;
    case BinaryOp::kPower:
      return integer_power(a, b);
    default:
      if (b == 0) return Error::invalid("division by zero");
      if (op == BinaryOp::kDivide) return Value(static_cast<double>(a) / static_cast<double>(b));
      if (a == INT64_MIN && b == -1) {
        if (op == BinaryOp::kFloorDivide) return overflow();
        return Value(int64_t{0});
      }
      if (op == BinaryOp::kFloorDivide) return Value(floor_divide(a, b));
      return Value(a - floor_divide(a, b) * b);
  }
  if (overflows) return overflow();
  return Value(result);
}

Result<Value> float_arithmetic(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value(a + b);
    case BinaryOp::kSubtract:
      return Value(a - b);
    case BinaryOp::kMultiply:
      return Value(a * b);
    case BinaryOp::kPower: {
      if (a == 0 && b < 0) return Error::invalid("division by zero");
      const double power = std::pow(a, b);
      if (std::isnan(power) && !std::isnan(a) && !std::isnan(b)) {
        return Error::unsupported("complex numbers are not supported");
      }
      if (std::isinf(power) && std::isfinite(a) && std::isfinite(b)) {
        return Error::invalid("a number is out of range");
      }
      return Value(power);
    }
    default:
      break;
  }
  if (b == 0) return Error::invalid("division by zero");
  if (op == BinaryOp::kDivide) return Value(a / b);
  // As CPython computes both, from the exact remainder.
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) {
      remainder += b;
      quotient -= 1;
    }
  } else {
    remainder = std::copysign(0.0, b);
  }
  if (op == BinaryOp::kModulo) return Value(remainder);
  if (quotient == 0) return Value(std::copysign(0.0, a / b));
  double floored = std::floor(quotient);
  if (quotient - floored > 0.5) floored += 1;
  return Value(floored);
}

Result<Value> repeated(Runtime& runtime, const Value& value, int64_t times) {
  const auto count = static_cast<size_t>(std::max<int64_t>(times, 0));
  if (const MarkedText* text = value.string()) {
    TextBuilder builder(runtime);
    for (size_t i = 0; i < count && !text->empty(); ++i) KVASIR_TRY_VOID(builder.append(*text));
    return runtime.text(builder.take());
  }
  const Sequence& sequence = *value.sequence();
  std::vector<Value> items;
  for (size_t i = 0; i < count && !sequence.items.empty(); ++i) {
    KVASIR_TRY_VOID(runtime.check_item_count(items.size() + sequence.items.size()));
    KVASIR_TRY_VOID(runtime.spend(sequence.items.size()));
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  }
  return runtime.sequence(sequence.flavor, std::move(items));
}

bool is_repeatable(const Value& value) {
  const Sequence* sequence = value.sequence();
  return value.string() != nullptr ||
         (sequence != nullptr && (sequence->flavor == Sequence::Flavor::kList ||
                                  sequence->flavor == Sequence::Flavor::kTuple));
}

Result<Value> concatenated(Runtime& runtime, const Value& left, const Value& right) {
  KVASIR_TRY(const MarkedText first, to_text(runtime, left));
  KVASIR_TRY(const MarkedText second, to_text(runtime, right));
  TextBuilder builder(runtime);
  KVASIR_TRY_VOID(builder.append(first));
  KVASIR_TRY_VOID(builder.append(second));
  return runtime.text(builder.take());
}

// -------- order

std::partial_ordering number_order(const Value& left, const Value& right) {
  if (left.floating() == nullptr && right.floating() == nullptr) {
    return *left.integer() <=> *right.integer();
  }
  if (left.floating() != nullptr && right.floating() != nullptr) {
    return *left.floating() <=> *right.floating();
  }
  // An integer and a float are compared exactly: 2^53 + 1 is more than 2.0^53.
  if (left.floating() != nullptr) return 0 <=> number_order(right, left);
  const double floating = *right.floating();
  if (std::isnan(floating)) return std::partial_ordering::unordered;
  if (floating >= 0x1p63) return std::partial_ordering::less;
  if (floating < -0x1p63) return std::partial_ordering::greater;
  const double whole = std::floor(floating);
  const auto order = *left.integer() <=> static_cast<int64_t>(whole);
  if (order != std::strong_ordering::equal) return order;
  return whole < floating ? std::partial_ordering::less : std::partial_ordering::equivalent;
}

bool is_same(const Value& left, const Value& right) {
  if (left.space() != nullptr || right.space() != nullptr) return left.space() == right.space();
  if (left.loop() != nullptr || right.loop() != nullptr) return left.loop() == right.loop();
  return left.function() == right.function();
}

// Lists equal lists and tuples tuples, but not each other.
bool are_alike(const Sequence& a, const Sequence& b) {
  return a.flavor == b.flavor && a.flavor != Sequence::Flavor::kGenerator;
}

Result<bool> dicts_equal(Runtime& runtime, const Dict& left, const Dict& right) {
  if (left.entries.size() != right.entries.size()) return false;
  for (const auto& [hash, place] : left.index) {
    const Value* other = right.find(hash);
    if (other == nullptr) return false;
    KVASIR_TRY(const bool same, equal(runtime, left.entries[place].second, *other));
    if (!same) return false;
  }
  return true;
}

// -------- subscripts

// A Python index: from the end if negative. nullopt outside.
std::optional<size_t> resolved_index(int64_t index, size_t size) {
  if (index < 0) index += static_cast<int64_t>(size);
  if (index < 0 || index >= static_cast<int64_t>(size)) return std::nullopt;
  return static_cast<size_t>(index);
}

std::string short_repr(Runtime& runtime, const Value& value) {
  constexpr size_t kShownBytesMax = 64;
  const auto repr = to_repr(runtime, value);
  if (!repr) return "...";
  if (repr->size() <= kShownBytesMax) return repr->text();
  return repr->text().substr(0, byte_of_character(repr->text(), kShownBytesMax / 4)) + "...";
}

Result<Value> no_such_item(Runtime& runtime, const Value& object, const Value& index) {
  if (index.string() != nullptr) {
    return Value::undefined(
        fmt::format("'{}' has no attribute {}", object.type_name(), short_repr(runtime, index)));
  }
  return Value::undefined(
      fmt::format("{} has no element {}", object.type_name(), short_repr(runtime, index)));
}

struct SliceBounds {
  int64_t start, stop, step;
  size_t count;
};
// What Python's slice.indices does.
Result<SliceBounds> slice_bounds(const Value& start, const Value& stop, const Value& step,
                                 size_t size) {
  for (const Value* part : {&start, &stop, &step}) {
    if (!part->is_none() && !part->integer()) return wrong_type("an integer", *part);
  }
  const auto length = static_cast<int64_t>(size);
  SliceBounds bounds{0, 0, step.integer().value_or(1), 0};
  if (bounds.step == 0) return Error::invalid("a slice's step is zero");
  bounds.step = std::clamp<int64_t>(bounds.step, -INT64_MAX, INT64_MAX);
  const bool backwards = bounds.step < 0;
  const auto clamped = [&](int64_t index) {
    if (index < 0) index = std::max<int64_t>(index, -length - 1) + length;
    return backwards ? std::clamp<int64_t>(index, -1, length - 1)
                     : std::clamp<int64_t>(index, 0, length);
  };
  bounds.start = start.is_none() ? (backwards ? length - 1 : 0) : clamped(*start.integer());
  bounds.stop = stop.is_none() ? (backwards ? -1 : length) : clamped(*stop.integer());
  const int64_t distance = backwards ? bounds.start - bounds.stop : bounds.stop - bounds.start;
  if (distance > 0) {
    const int64_t stride = backwards ? -bounds.step : bounds.step;
    bounds.count = static_cast<size_t>((distance - 1) / stride + 1);
  }
  return bounds;
}

Result<Value> text_slice(Runtime& runtime, const MarkedText& text, const Value& start,
                         const Value& stop, const Value& step) {
  KVASIR_TRY_VOID(runtime.spend_bytes(text.size()));
  KVASIR_TRY(const SliceBounds bounds,
             slice_bounds(start, stop, step, count_characters(text.text())));
  if (bounds.count == 0) return runtime.text(MarkedText());
  if (bounds.step == 1) {
    const auto first = static_cast<size_t>(bounds.start);
    const size_t begin = byte_of_character(text.text(), first);
    const std::string_view rest = std::string_view(text.text()).substr(begin);
    return runtime.text(text.part(begin, begin + byte_of_character(rest, bounds.count)));
  }
  KVASIR_TRY_VOID(runtime.spend_bytes(8 * text.size()));
  const std::vector<size_t> at = character_bounds(text.text());
  std::string picked;
  for (size_t i = 0; i < bounds.count; ++i) {
    const auto character =
        static_cast<size_t>(bounds.start + static_cast<int64_t>(i) * bounds.step);
    picked.append(text.text(), at[character], at[character + 1] - at[character]);
  }
  return runtime.text(std::move(picked), text.origin());
}

}  // namespace

Error undefined_error(const Value& value) {
  return Error::invalid("{}", *std::get<Undefined>(value.data()).why);
}

Error wrong_type(std::string_view wanted, const Value& value) {
  if (value.is_undefined()) return undefined_error(value);
  return Error::invalid("expected {}, not '{}'", wanted, value.type_name());
}

bool is_true(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const double* floating = value.floating()) return *floating != 0;
  if (const auto integer = value.integer()) return *integer != 0;
  if (const MarkedText* text = value.string()) return !text->empty();
  if (const Sequence* sequence = value.sequence()) {
    return !sequence->items.empty() || sequence->flavor == Sequence::Flavor::kGenerator;
  }
  if (const Dict* dict = value.dict()) return !dict->entries.empty();
  if (const Loop* loop = value.loop()) return !loop->items->items.empty();
  return true;
}

Result<Value> apply(Runtime& runtime, BinaryOp op, const Value& left, const Value& right) {
  if (op == BinaryOp::kConcatenate) return concatenated(runtime, left, right);
  if (left.is_number() && right.is_number()) {
    if (left.integer() && right.integer()) {
      return integer_arithmetic(op, *left.integer(), *right.integer());
    }
    return float_arithmetic(op, as_double(left), as_double(right));
  }
  if (op == BinaryOp::kAdd) {
    if (left.string() != nullptr && right.string() != nullptr) {
      return concatenated(runtime, left, right);
    }
    const Sequence* a = left.sequence();
    const Sequence* b = right.sequence();
    if (a != nullptr && b != nullptr && are_alike(*a, *b) && is_repeatable(left)) {
      KVASIR_TRY_VOID(runtime.check_item_count(a->items.size() + b->items.size()));
      std::vector<Value> items = a->items;
      items.insert(items.end(), b->items.begin(), b->items.end());
      return runtime.sequence(a->flavor, std::move(items));
    }
  }
  if (op == BinaryOp::kMultiply && is_repeatable(left) && right.integer()) {
    return repeated(runtime, left, *right.integer());
  }
  if (op == BinaryOp::kMultiply && is_repeatable(right) && left.integer()) {
    return repeated(runtime, right, *left.integer());
  }
  if (op == BinaryOp::kModulo && left.string() != nullptr) {
    return printf_formatted(runtime, *left.string(), right);
  }
  return no_operator(spelling(op), left, right);
}

Result<Value> negated(const Value& value, ast::UnaryOp sign) {
  const bool minus = sign == ast::UnaryOp::kMinus;
  if (const double* floating = value.floating()) return Value(minus ? -*floating : *floating);
  const auto integer = value.integer();
  if (!integer) return wrong_type("a number", value);
  if (minus && *integer == INT64_MIN) return overflow();
  return Value(minus ? -*integer : *integer);
}

Result<bool> equal(Runtime& runtime, const Value& left, const Value& right) {
  KVASIR_TRY_VOID(runtime.spend(1));
  if (left.is_number() && right.is_number()) return number_order(left, right) == 0;
  if (left.data().index() != right.data().index()) return false;
  if (left.is_undefined() || left.is_none()) return true;
  if (const MarkedText* text = left.string()) {
    KVASIR_TRY_VOID(runtime.spend_bytes(std::min(text->size(), right.string()->size())));
    return text->text() == right.string()->text();
  }
  if (const Dict* dict = left.dict()) {
    KVASIR_TRY(const auto nested, runtime.nest());
    return dicts_equal(runtime, *dict, *right.dict());
  }
  if (const Sequence* a = left.sequence()) {
    const Sequence* b = right.sequence();
    if (a == b) return true;
    if (!are_alike(*a, *b) || a->items.size() != b->items.size()) return false;
    KVASIR_TRY(const auto nested, runtime.nest());
    for (size_t i = 0; i < a->items.size(); ++i) {
      KVASIR_TRY(const bool same, equal(runtime, a->items[i], b->items[i]));
      if (!same) return false;
    }
    return true;
  }
  return is_same(left, right);
}

Result<std::partial_ordering> order(Runtime& runtime, const Value& left, const Value& right) {
  KVASIR_TRY_VOID(runtime.spend(1));
  if (left.is_number() && right.is_number()) return number_order(left, right);
  if (left.string() != nullptr && right.string() != nullptr) {
    KVASIR_TRY_VOID(runtime.spend_bytes(std::min(left.string()->size(), right.string()->size())));
    // Bytes of UTF-8 are ordered like its characters.
    return std::partial_ordering(left.string()->text() <=> right.string()->text());
  }
  const Sequence* a = left.sequence();
  const Sequence* b = right.sequence();
  if (a == nullptr || b == nullptr || !are_alike(*a, *b) || !is_repeatable(left)) {
    return no_operator("<", left, right);
  }
  KVASIR_TRY(const auto nested, runtime.nest());
  for (size_t i = 0; i < std::min(a->items.size(), b->items.size()); ++i) {
    KVASIR_TRY(const bool same, equal(runtime, a->items[i], b->items[i]));
    if (!same) return order(runtime, a->items[i], b->items[i]);
  }
  return a->items.size() <=> b->items.size();
}

Result<bool> compare(Runtime& runtime, CompareOp op, const Value& left, const Value& right) {
  switch (op) {
    case CompareOp::kEqual:
      return equal(runtime, left, right);
    case CompareOp::kNotEqual: {
      KVASIR_TRY(const bool same, equal(runtime, left, right));
      return !same;
    }
    case CompareOp::kIn:
      return contains(runtime, right, left);
    case CompareOp::kNotIn: {
      KVASIR_TRY(const bool found, contains(runtime, right, left));
      return !found;
    }
    default:
      break;
  }
  KVASIR_TRY(const std::partial_ordering found, order(runtime, left, right));
  switch (op) {
    case CompareOp::kLess:
      return found < 0;
    case CompareOp::kLessEqual:
      return found <= 0;
    case CompareOp::kGreater:
      return found > 0;
    default:
      return found >= 0;
  }
}

Result<bool> contains(Runtime& runtime, const Value& container, const Value& item) {
  if (const MarkedText* text = container.string()) {
    if (item.string() == nullptr) return wrong_type("a string to look for", item);
    KVASIR_TRY_VOID(runtime.spend_bytes(text->size()));
    return find_text(text->text(), item.string()->text()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) {
    KVASIR_TRY(const std::string key, hash_key(runtime, item));
    return dict->find(key) != nullptr;
  }
  KVASIR_TRY(const auto items, iterate(runtime, container));
  for (const Value& candidate : items->items) {
    KVASIR_TRY(const bool same, equal(runtime, candidate, item));
    if (same) return true;
  }
  return false;
}

std::string hash_key_of_text(std::string_view text) {
  std::string key = "s";
  return key.append(text);
}

Result<std::string> hash_key(Runtime& runtime, const Value& value) {
  KVASIR_TRY_VOID(runtime.spend(1));
  if (const MarkedText* text = value.string()) {
    KVASIR_TRY_VOID(runtime.spend_bytes(text->size()));
    return hash_key_of_text(text->text());
  }
  if (const auto integer = value.integer()) return fmt::format("i{}", *integer);
  if (const double* floating = value.floating()) {
    if (*floating >= -0x1p63 && *floating < 0x1p63 && std::floor(*floating) == *floating) {
      return fmt::format("i{}", static_cast<int64_t>(*floating));
    }
    return fmt::format("f{}", std::bit_cast<uint64_t>(*floating));
  }
  if (value.is_none()) return std::string("n");
  if (value.is_undefined()) return std::string("u");
  const Sequence* sequence = value.sequence();
  if (sequence != nullptr && sequence->flavor == Sequence::Flavor::kTuple) {
    KVASIR_TRY(const auto nested, runtime.nest());
    std::string key = "t";
    for (const Value& item : sequence->items) {
      KVASIR_TRY(const std::string part, hash_key(runtime, item));
      key += fmt::format("{}:", part.size());
      key += part;
      KVASIR_TRY_VOID(runtime.check_text_size(key.size()));
      KVASIR_TRY_VOID(runtime.spend_bytes(part.size()));
    }
    return key;
  }
  if (sequence != nullptr && sequence->flavor == Sequence::Flavor::kRange) {
    const auto& items = sequence->items;
    if (items.empty()) return std::string("r");
    return fmt::format("r{}:{}:{}", items.size(), *items.front().integer(),
                       items.size() == 1 ? 0 : sequence->range.step);
  }
  return Error::invalid("'{}' cannot be a key", value.type_name());
}

Result<Value> subscript(Runtime& runtime, const Value& object, const Value& index) {
  KVASIR_TRY_VOID(runtime.spend(1));
  if (object.is_undefined()) return undefined_error(object);
  if (const Dict* dict = object.dict()) {
    if (index.sequence() == nullptr && index.dict() == nullptr) {
      KVASIR_TRY(const std::string key, hash_key(runtime, index));
      if (const Value* found = dict->find(key)) return *found;
    } else if (auto key = hash_key(runtime, index)) {
      if (const Value* found = dict->find(*key)) return *found;
    }
  } else if (const auto number = index.integer()) {
    if (const MarkedText* text = object.string()) {
      KVASIR_TRY_VOID(runtime.spend_bytes(text->size()));
      const auto place = resolved_index(*number, count_characters(text->text()));
      if (!place) return no_such_item(runtime, object, index);
      const size_t begin = byte_of_character(text->text(), *place);
      const std::string_view rest = std::string_view(text->text()).substr(begin);
      return runtime.text(text->part(begin, begin + byte_of_character(rest, 1)));
    }
    const Sequence* sequence = object.sequence();
    if (sequence != nullptr && sequence->flavor <= Sequence::Flavor::kRange) {
      const auto place = resolved_index(*number, sequence->items.size());
      if (place) return sequence->items[*place];
    }
  }
  if (const MarkedText* name = index.string()) {
    KVASIR_TRY(std::optional<Value> found, python_attribute(runtime, object, name->text()));
    if (found) return std::move(*found);
  }
  return no_such_item(runtime, object, index);
}

Result<Value> attribute(Runtime& runtime, const Value& object, std::string_view name) {
  KVASIR_TRY_VOID(runtime.spend(1));
  if (object.is_undefined()) return undefined_error(object);
  KVASIR_TRY(std::optional<Value> found, python_attribute(runtime, object, name));
  if (found) return std::move(*found);
  if (const Dict* dict = object.dict()) {
    if (const Value* value = dict->find_name(name)) return *value;
  }
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", object.type_name(), name));
}

Result<Value> slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
                    const Value& step) {
  if (object.is_undefined()) return undefined_error(object);
  if (const MarkedText* text = object.string()) {
    return text_slice(runtime, *text, start, stop, step);
  }
  const Sequence* sequence = object.sequence();
  if (sequence == nullptr || sequence->flavor > Sequence::Flavor::kRange) {
    return Error::invalid("'{}' cannot be sliced", object.type_name());
  }
  KVASIR_TRY(const SliceBounds bounds, slice_bounds(start, stop, step, sequence->items.size()));
  KVASIR_TRY_VOID(runtime.spend(bounds.count));
  std::vector<Value> items;
  items.reserve(bounds.count);
  for (size_t i = 0; i < bounds.count; ++i) {
    items.push_back(
        sequence->items[static_cast<size_t>(bounds.start + static_cast<int64_t>(i) * bounds.step)]);
  }
  KVASIR_TRY(Value result, runtime.sequence(sequence->flavor, std::move(items)));
  if (sequence->flavor == Sequence::Flavor::kRange) {
    const auto& range = sequence->range;
    result.sequence()->range = {range.start + bounds.start * range.step,
                                range.start + bounds.stop * range.step, range.step * bounds.step};
  }
  return result;
}

Result<std::shared_ptr<const Sequence>> iterate(Runtime& runtime, const Value& value) {
  KVASIR_TRY_VOID(runtime.spend(1));
  if (value.sequence() != nullptr) {
    auto sequence = std::get<std::shared_ptr<Sequence>>(value.data());
    if (sequence->flavor != Sequence::Flavor::kGenerator) return {std::move(sequence)};
    auto items = std::make_shared<Sequence>();
    if (!std::exchange(sequence->is_used_up, true)) *items = *sequence;
    return {std::move(items)};
  }
  std::vector<Value> items;
  if (const MarkedText* text = value.string()) {
    KVASIR_TRY_VOID(runtime.spend_bytes(text->size()));
    KVASIR_TRY_VOID(runtime.check_item_count(count_characters(text->text())));
    for (size_t begin = 0, end = 0; begin < text->size(); begin = end) {
      character_at(text->text(), begin, end);
      KVASIR_TRY(Value character, runtime.text(text->part(begin, end)));
      items.push_back(std::move(character));
    }
  } else if (const Dict* dict = value.dict()) {
    KVASIR_TRY_VOID(runtime.spend(dict->entries.size()));
    for (const auto& entry : dict->entries) items.push_back(entry.first);
  } else if (const Loop* loop = value.loop(); loop != nullptr) {
    return Error::unsupported("a loop over 'loop' is not supported");
  } else if (!value.is_undefined()) {
    return Error::invalid("'{}' cannot be looped over", value.type_name());
  }
  KVASIR_TRY(const Value list, runtime.list(std::move(items)));
  return std::shared_ptr<const Sequence>(std::get<std::shared_ptr<Sequence>>(list.data()));
}

Result<size_t> length(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) return size_t{0};
  if (const MarkedText* text = value.string()) {
    KVASIR_TRY_VOID(runtime.spend_bytes(text->size()));
    return count_characters(text->text());
  }
  if (const Sequence* sequence = value.sequence();
      sequence != nullptr && sequence->flavor != Sequence::Flavor::kGenerator) {
    return sequence->items.size();
  }
  if (const Dict* dict = value.dict()) return dict->entries.size();
  if (const Loop* loop = value.loop()) return loop->items->items.size();
  return Error::invalid("'{}' has no length", value.type_name());
}

}  // namespace kvasir::text::templates
