#include "gguf/metadata.h"

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "gguf/text_check.h"

namespace kvasir::gguf {
namespace {

constexpr std::array<std::string_view, 13> kValueTypeNames = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

// An integer of any width, without losing one bit of u64 or i64.
struct Integer {
  bool negative = false;
  uint64_t bits = 0;  // two's complement
};

template <typename T>
Integer integer_at(const std::byte* at) {
  auto value = load_le<T>(at);
  if constexpr (std::is_signed_v<T>)
    return {value < 0, static_cast<uint64_t>(static_cast<int64_t>(value))};
  else
    return {false, value};
}

std::optional<Integer> read_integer(ValueType type, const std::byte* at) {
  switch (type) {
    case ValueType::kU8:
      return integer_at<uint8_t>(at);
    case ValueType::kI8:
      return integer_at<int8_t>(at);
    case ValueType::kU16:
      return integer_at<uint16_t>(at);
    case ValueType::kI16:
      return integer_at<int16_t>(at);
    case ValueType::kU32:
      return integer_at<uint32_t>(at);
    case ValueType::kI32:
      return integer_at<int32_t>(at);
    case ValueType::kBool:
      return integer_at<uint8_t>(at);
    case ValueType::kU64:
      return integer_at<uint64_t>(at);
    case ValueType::kI64:
      return integer_at<int64_t>(at);
    default:
      return std::nullopt;
  }
}

std::optional<double> read_float(ValueType type, const std::byte* at) {
  if (type == ValueType::kF32) return static_cast<double>(load_le<float>(at));
  if (type == ValueType::kF64) return load_le<double>(at);
  return std::nullopt;
}

std::string place(const Value& value) {
  return fmt::format("key '{}' at byte {}", printable(value.key), value.offset);
}

std::string type_text(const Value& value) {
  if (value.type != ValueType::kArray) return std::string(value_type_name(value.type));
  return fmt::format("array of {}", value_type_name(value.element_type));
}

Error wrong_type(const Value& value, std::string_view wanted) {
  return Error::corrupt("{}: is {}, but must be {}", place(value), type_text(value), wanted);
}

Error out_of_range(const Value& value, Integer number, std::string_view wanted) {
  if (number.negative)
    return Error::corrupt("{}: {} {} is not {}", place(value), type_text(value),
                          static_cast<int64_t>(number.bits), wanted);
  return Error::corrupt("{}: {} {} is not {}", place(value), type_text(value), number.bits, wanted);
}

// One scalar, or the elements of an array.
struct Elements {
  ValueType type;
  size_t count;
  size_t stride;
};

Elements elements_of(const Value& value) {
  // The parser has seen all `count` elements inside the file, so the count fits a size_t.
  auto count = static_cast<size_t>(value.count);
  ValueType type = value.type == ValueType::kArray ? value.element_type : value.type;
  return {type, count, count == 0 ? 0 : value.bytes.size() / count};
}

Error absent(std::string_view key) {
  return Error::not_found("key '{}' is missing", key);
}

}  // namespace

std::string_view value_type_name(ValueType type) {
  auto id = static_cast<size_t>(type);
  // cppcheck-suppress returnDanglingLifetime ; the names are constants
  return id < kValueTypeNames.size() ? kValueTypeNames[id] : "unknown";
}

const Value* Metadata::find(std::string_view key) const {
  auto found = index_.find(key);
  return found == index_.end() ? nullptr : &values_[found->second];
}

bool Metadata::add(const Value& value) {
  if (!index_.emplace(value.key, values_.size()).second) return false;
  values_.push_back(value);
  return true;
}

Result<uint64_t> Metadata::get_uint(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return absent(key);
  auto number = read_integer(value->type, value->bytes.data());
  if (!number) return wrong_type(*value, "an unsigned integer");
  if (number->negative) return out_of_range(*value, *number, "an unsigned integer");
  return number->bits;
}

Result<int64_t> Metadata::get_int(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return absent(key);
  auto number = read_integer(value->type, value->bytes.data());
  if (!number) return wrong_type(*value, "an integer");
  if (!number->negative && number->bits > uint64_t{std::numeric_limits<int64_t>::max()})
    return out_of_range(*value, *number, "a signed 64-bit integer");
  return static_cast<int64_t>(number->bits);
}

Result<double> Metadata::get_float(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return absent(key);
  auto number = read_float(value->type, value->bytes.data());
  if (!number) return wrong_type(*value, "f32 or f64");
  if (!std::isfinite(*number))
    return Error::corrupt("{}: {} {} is not a finite number", place(*value), type_text(*value),
                          *number);
  return *number;
}

Result<bool> Metadata::get_bool(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return absent(key);
  auto number = read_integer(value->type, value->bytes.data());
  if (!number) return wrong_type(*value, "bool");
  if (number->bits > 1) return out_of_range(*value, *number, "a truth value (0 or 1)");
  return number->bits == 1;
}

Result<std::string_view> Metadata::get_string(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return absent(key);
  if (value->type != ValueType::kString) return wrong_type(*value, "a string");
  std::string_view text = text_of(value->bytes);
  if (!is_text(text))
    return Error::corrupt("{}: the string is not valid UTF-8 or holds a NUL", place(*value));
  return text;
}

Result<uint64_t> Metadata::get_uint_or(std::string_view key, uint64_t fallback) const {
  if (!contains(key)) return fallback;
  return get_uint(key);
}

Result<double> Metadata::get_float_or(std::string_view key, double fallback) const {
  if (!contains(key)) return fallback;
  return get_float(key);
}

Result<bool> Metadata::get_bool_or(std::string_view key, bool fallback) const {
  if (!contains(key)) return fallback;
  return get_bool(key);
}

Result<std::string_view> Metadata::get_string_or(std::string_view key,
                                                 std::string_view fallback) const {
  if (!contains(key)) return fallback;
  return get_string(key);
}

Result<std::vector<int64_t>> Metadata::get_ints(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return absent(key);
  Elements elements = elements_of(*value);
  std::vector<int64_t> numbers;
  if (elements.type == ValueType::kString || elements.type == ValueType::kF32 ||
      elements.type == ValueType::kF64)
    return wrong_type(*value, "an array of integers");
  numbers.reserve(elements.count);
  for (size_t i = 0; i < elements.count; ++i) {
    auto number = read_integer(elements.type, value->bytes.data() + i * elements.stride);
    if (!number->negative && number->bits > uint64_t{std::numeric_limits<int64_t>::max()})
      return out_of_range(*value, *number, "a signed 64-bit integer");
    numbers.push_back(static_cast<int64_t>(number->bits));
  }
  return numbers;
}

Result<std::vector<double>> Metadata::get_floats(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return absent(key);
  Elements elements = elements_of(*value);
  if (elements.type != ValueType::kF32 && elements.type != ValueType::kF64)
    return wrong_type(*value, "an array of f32 or f64");
  std::vector<double> numbers;
  numbers.reserve(elements.count);
  for (size_t i = 0; i < elements.count; ++i)
    numbers.push_back(*read_float(elements.type, value->bytes.data() + i * elements.stride));
  return numbers;
}

Result<std::vector<std::string_view>> Metadata::get_strings(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return absent(key);
  if (value->type == ValueType::kString) return std::vector{text_of(value->bytes)};
  if (value->type != ValueType::kArray || value->element_type != ValueType::kString)
    return wrong_type(*value, "an array of strings");
  std::vector<std::string_view> strings;
  strings.reserve(static_cast<size_t>(value->count));
  ByteSpan rest = value->bytes;
  for (uint64_t i = 0; i < value->count; ++i) {
    // The parser has walked these lengths and found each of them inside the file.
    auto length = static_cast<size_t>(load_le<uint64_t>(rest.data()));
    rest = rest.subspan(sizeof(uint64_t));
    strings.push_back(text_of(rest.first(length)));
    rest = rest.subspan(length);
  }
  return strings;
}

}  // namespace kvasir::gguf
