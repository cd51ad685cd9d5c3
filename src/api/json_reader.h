// Bytes of a stranger to a JSON value, with limits, and typed fields out of it. Only the .cc files
// of this module include this: it costs four seconds of compile time.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/error.h"
#include "api/request.h"

namespace kvasir::api {

// Keeps members in the order sent: a schema reaches the model as it was written.
using Json = nlohmann::ordered_json;

// RFC 8259 without the loose ends: UTF-8 only, no lone surrogates, no member named twice, nothing
// nested deeper than kJsonDepthMax, at most kJsonValuesMax values. kInvalidJson says which.
Outcome<Json> parse_json(std::string_view bytes);

// The same, and it has to be an object.
Outcome<Json> parse_json_object(std::string_view bytes);

// What went wrong first while the fields of a request were read. Everything read after that is a
// default that nobody will see.
struct Reading {
  UnknownFields unknown_fields = UnknownFields::kIgnored;
  std::optional<ApiError> error;

  void fail(ApiError found) {
    if (!error) error = std::move(found);
  }
};

// The members of one object. Those never asked for are unknown: done() refuses them in strict mode.
// null counts as absent. One thread; the object outlives this.
class Fields {
 public:
  // path: "" for the request itself, else "messages[2]". Fails in `reading` if it is no object.
  Fields(const Json& object, std::string path, Reading& reading);

  bool has(std::string_view name) { return find(name) != nullptr; }
  // Null if absent. Counts as asked for.
  const Json* find(std::string_view name);
  std::string path_of(std::string_view name) const;

  std::optional<std::string> text(std::string_view name);
  std::string required_text(std::string_view name);
  std::optional<bool> boolean(std::string_view name);
  bool flag(std::string_view name) { return boolean(name).value_or(false); }
  // Outside of [least, most] is an error, never clamped.
  std::optional<double> number(std::string_view name, double least, double most);
  std::optional<int64_t> integer(std::string_view name, int64_t least, int64_t most);
  const Json* object(std::string_view name);
  const Json* array(std::string_view name, size_t most);
  // Index into `words`; anything else is kUnsupportedValue, naming them.
  std::optional<size_t> word(std::string_view name, std::initializer_list<std::string_view> words);

  // Known, without effect.
  void ignore(std::initializer_list<std::string_view> names);
  // Known, and not to be had: any value but null (and false) is kUnsupportedValue.
  void refuse(std::string_view name, std::string_view why);

  void fail(Code code, std::string_view name, std::string message);
  void done();
  bool failed() const { return reading_.error.has_value(); }
  Reading& reading() { return reading_; }

 private:
  void wrong_type(std::string_view name, std::string_view wanted, const Json& found);

  const Json* object_;
  std::string path_;
  Reading& reading_;
  std::vector<std::string_view> asked_;
};

// "a string", "null", ...: what a value is, for error texts.
std::string_view type_name(const Json& value);
// The value as compact JSON text.
std::string to_text(const Json& value);

}  // namespace kvasir::api
