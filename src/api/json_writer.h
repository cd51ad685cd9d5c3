// Writes JSON front to back without building a tree: a streamed answer is one small object per
// token. Commas are its business; whoever calls keeps begin and end in balance.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvasir::api {

// One thread.
class JsonWriter {
 public:
  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);

  // Bytes that are not UTF-8 become U+FFFD: what comes out is always JSON.
  JsonWriter& text(std::string_view value);
  JsonWriter& text_or_null(std::string_view value);  // null if empty
  JsonWriter& number(int64_t value);
  JsonWriter& number(uint64_t value);
  JsonWriter& number(double value);  // the shortest digits that read back equal; not finite: null
  JsonWriter& boolean(bool value);
  JsonWriter& null();
  JsonWriter& raw(std::string_view json);  // already JSON

  // "name": value
  void member(std::string_view name, std::string_view value) { key(name).text(value); }
  void member(std::string_view name, const char* value) { key(name).text(value); }
  template <std::same_as<bool> T>
  void member(std::string_view name, T value) {
    key(name).boolean(value);
  }
  template <std::integral T>
  requires(!std::same_as<T, bool>) void member(std::string_view name, T value) {
    if constexpr (std::signed_integral<T>) {
      key(name).number(static_cast<int64_t>(value));
    } else {
      key(name).number(static_cast<uint64_t>(value));
    }
  }
  void member(std::string_view name, double value) { key(name).number(value); }

  const std::string& str() const { return out_; }
  std::string take() { return std::move(out_); }

 private:
  void separate();

  std::string out_;
  bool needs_comma_ = false;
};

// `value` as a JSON string with its quotes.
void append_json_string(std::string& out, std::string_view value);

}  // namespace kvasir::api
