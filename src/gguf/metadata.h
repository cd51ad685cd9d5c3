// The key-value part of a GGUF header, decoded lazily from the bytes it lies in.
//
// Grammar (all little-endian):
//   value  := u8|i8|u16|i16|u32|i32|f32|bool|string|array|u64|i64|f64
//   string := u64 length, bytes          array := u32 element type, u64 count, elements
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace kvasir::gguf {

enum class ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
std::string_view value_type_name(ValueType type);

// A checked view of one value; the bytes belong to the file.
struct Value {
  std::string_view key;
  ValueType type;
  ValueType element_type;  // of an array
  uint64_t count = 1;      // elements of an array, 1 otherwise
  ByteSpan bytes;          // a string's text; a scalar's bytes; an array's elements back to back
  uint64_t offset = 0;     // of the value in its file, for error messages
};

// Thread-safe for reading. Valid as long as the bytes it was parsed from.
class Metadata {
 public:
  const std::vector<Value>& values() const { return values_; }
  const Value* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }

  // Typed access. Any integer width (and bool) is accepted for an integer after a range check, f32
  // and f64 for a float, which must be finite. kNotFound if the key is absent, kCorrupt (naming
  // key, offset and both types) if it has another type or does not fit.
  Result<uint64_t> get_uint(std::string_view key) const;
  Result<int64_t> get_int(std::string_view key) const;
  Result<double> get_float(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key) const;  // valid UTF-8, no NUL

  // The same with a value for an absent key; a present key of a wrong type is still an error.
  Result<uint64_t> get_uint_or(std::string_view key, uint64_t fallback) const;
  Result<double> get_float_or(std::string_view key, double fallback) const;
  Result<bool> get_bool_or(std::string_view key, bool fallback) const;
  Result<std::string_view> get_string_or(std::string_view key, std::string_view fallback) const;

  // Arrays. A scalar is accepted as an array of one. Floats may be infinite or NaN here (token
  // scores).
  Result<std::vector<int64_t>> get_ints(std::string_view key) const;
  Result<std::vector<double>> get_floats(std::string_view key) const;
  // Views into the file; not checked for UTF-8 (token strings need not be).
  Result<std::vector<std::string_view>> get_strings(std::string_view key) const;

  // For the parser: false if the key is already there.
  bool add(const Value& value);

 private:
  std::vector<Value> values_;
  std::map<std::string_view, size_t> index_;  // ordered: a hash could be made to collide
};

}  // namespace kvasir::gguf
