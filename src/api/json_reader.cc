#include "api/json_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvasir::api {
namespace {

// At most so many bytes, whole characters.
std::string_view shortened(std::string_view text, size_t bytes_max) {
  size_t bytes = std::min(text.size(), bytes_max);
  while (bytes < text.size() && bytes > 0 && (text[bytes] & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

// Builds the tree and stops at the first thing that breaks a rule. The parser that calls this does
// not recurse; what recurses later (writing, destroying) is bounded by the depth.
class TreeBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit TreeBuilder(Json& root) : root_(root) {}

  bool null() override { return add(Json(nullptr)) != nullptr; }
  bool boolean(bool value) override { return add(Json(value)) != nullptr; }
  bool number_integer(number_integer_t value) override { return add(Json(value)) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return add(Json(value)) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override {
    return add(Json(value)) != nullptr;
  }
  bool string(string_t& value) override { return add(Json(std::move(value))) != nullptr; }
  bool binary(binary_t&) override { return refuse("binary values are not JSON"); }

  bool start_object(size_t) override { return open(Json::object()); }
  bool key(string_t& name) override {
    if (!open_.back().names.insert(name).second)
      return refuse(fmt::format("a member named '{}' stands there twice", shortened(name, 64)));
    key_ = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& fault) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: what" without what only
    // the library's authors want to read, and without a megabyte of somebody's digits.
    std::string_view what = fault.what();
    const size_t bracket = what.find("] ");
    if (bracket != std::string_view::npos) what.remove_prefix(bracket + 2);
    if (what.starts_with("parse error at "))
      what.remove_prefix(std::min(what.find(": ") + 2, what.size()));
    return refuse(fmt::format("byte {}: {}", position, shortened(what, 200)));
  }

  const std::string& reason() const { return reason_; }

 private:
  struct Open {
    Json* value;
    std::set<std::string> names;  // of an object, so far
  };

  bool refuse(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  Json* add(Json value) {
    if (++values_ > kJsonValuesMax) {
      refuse(fmt::format("more than {} values", kJsonValuesMax));
      return nullptr;
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back().value;
    if (parent.is_array()) {
      auto& elements = parent.get_ref<Json::array_t&>();
      elements.push_back(std::move(value));
      return &elements.back();
    }
    // Straight to the back: the search that the object's own insertion makes is done in key().
    auto& members = parent.get_ref<Json::object_t&>();
    members.emplace_back(std::move(key_), std::move(value));
    return &members.back().second;
  }

  bool open(Json container) {
    if (open_.size() == kJsonDepthMax)
      return refuse(fmt::format("nested deeper than {}", kJsonDepthMax));
    Json* value = add(std::move(container));
    if (value == nullptr) return false;
    open_.push_back({value, {}});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  Json& root_;
  std::vector<Open> open_;  // innermost last; an element moves only while nothing in it is open
  std::string key_;
  size_t values_ = 0;
  std::string reason_;
};

}  // namespace

Outcome<Json> parse_json(std::string_view bytes) {
  if (bytes.size() > kRequestBytesMax) {
    return ApiError::of(Code::kRequestTooLarge, "", "the request has {} bytes, at most {} are read",
                        bytes.size(), kRequestBytesMax);
  }
  Json root;
  TreeBuilder builder(root);
  if (!Json::sax_parse(bytes.begin(), bytes.end(), &builder))
    return ApiError::of(Code::kInvalidJson, "", "the body is not valid JSON: {}", builder.reason());
  return root;
}

Outcome<Json> parse_json_object(std::string_view bytes) {
  KVASIR_TRY(Json root, parse_json(bytes));
  if (!root.is_object()) {
    return ApiError::of(Code::kInvalidJson, "", "the body has to be a JSON object, it is {}",
                        type_name(root));
  }
  return root;
}

std::string_view type_name(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

std::string to_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Fields::Fields(const Json& object, std::string path, Reading& reading)
    : object_(&object), path_(std::move(path)), reading_(reading) {
  if (object.is_object()) return;
  static const Json empty = Json::object();
  reading_.fail(ApiError::of(Code::kInvalidValue, path_, "'{}' has to be an object, it is {}",
                             path_, type_name(object)));
  object_ = &empty;
}

std::string Fields::path_of(std::string_view name) const {
  if (name.empty()) return path_;
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

const Json* Fields::find(std::string_view name) {
  asked_.push_back(name);
  for (const auto& [key, value] : object_->get_ref<const Json::object_t&>())
    if (key == name) return value.is_null() ? nullptr : &value;
  return nullptr;
}

void Fields::fail(Code code, std::string_view name, std::string message) {
  reading_.fail({code, std::move(message), path_of(name), 0});
}

void Fields::wrong_type(std::string_view name, std::string_view wanted, const Json& found) {
  fail(Code::kInvalidValue, name,
       fmt::format("'{}' has to be {}, it is {}", path_of(name), wanted, type_name(found)));
}

std::optional<std::string> Fields::text(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    wrong_type(name, "a string", *value);
    return std::nullopt;
  }
  return value->get_ref<const std::string&>();
}

std::string Fields::required_text(std::string_view name) {
  std::optional<std::string> value = text(name);
  if (!value) fail(Code::kMissingField, name, fmt::format("'{}' is missing", path_of(name)));
  return std::move(value).value_or("");
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    wrong_type(name, "true or false", *value);
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<double> Fields::number(std::string_view name, double least, double most) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    wrong_type(name, "a number", *value);
    return std::nullopt;
  }
  const auto found = value->get<double>();
  if (!(found >= least && found <= most)) {
    fail(Code::kInvalidValue, name,
         fmt::format("'{}' is {}, it may be {} to {}", path_of(name), found, least, most));
    return std::nullopt;
  }
  return found;
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t least, int64_t most) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    wrong_type(name, "an integer", *value);
    return std::nullopt;
  }
  const auto out_of_range = [&] {
    fail(
        Code::kInvalidValue, name,
        fmt::format("'{}' is {}, it may be {} to {}", path_of(name), to_text(*value), least, most));
    return std::nullopt;
  };
  int64_t found = 0;
  if (value->is_number_unsigned()) {
    const auto large = value->get<uint64_t>();
    if (large > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return out_of_range();
    found = static_cast<int64_t>(large);
  } else if (value->is_number_integer()) {
    found = value->get<int64_t>();
  } else {
    // 3.0 is an integer too: JSON has one kind of number. Beyond 2^53 a double is not exact.
    const auto real = value->get<double>();
    if (!(std::fabs(real) <= 9007199254740992.0)) return out_of_range();
    if (real != std::floor(real)) {
      wrong_type(name, "an integer", *value);
      return std::nullopt;
    }
    found = static_cast<int64_t>(real);
  }
  if (found < least || found > most) return out_of_range();
  return found;
}

const Json* Fields::object(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr || value->is_object()) return value;
  wrong_type(name, "an object", *value);
  return nullptr;
}

const Json* Fields::array(std::string_view name, size_t most) {
  const Json* value = find(name);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) {
    wrong_type(name, "an array", *value);
    return nullptr;
  }
  if (value->size() > most) {
    fail(Code::kInvalidValue, name,
         fmt::format("'{}' has {} elements, at most {} are taken", path_of(name), value->size(),
                     most));
    return nullptr;
  }
  return value;
}

std::optional<size_t> Fields::word(std::string_view name,
                                   std::initializer_list<std::string_view> words) {
  const std::optional<std::string> value = text(name);
  if (!value) return std::nullopt;
  const auto* found = std::find(words.begin(), words.end(), *value);
  if (found != words.end()) return static_cast<size_t>(found - words.begin());
  fail(Code::kUnsupportedValue, name,
       fmt::format("'{}' is '{:.64}', it may be: {}", path_of(name), *value,
                   fmt::join(words, ", ")));
  return std::nullopt;
}

void Fields::ignore(std::initializer_list<std::string_view> names) {
  asked_.insert(asked_.end(), names.begin(), names.end());
}

void Fields::refuse(std::string_view name, std::string_view why) {
  const Json* value = find(name);
  if (value == nullptr || (value->is_boolean() && !value->get<bool>())) return;
  fail(Code::kUnsupportedValue, name, fmt::format("'{}' is not supported: {}", path_of(name), why));
}

void Fields::done() {
  if (reading_.unknown_fields == UnknownFields::kIgnored || failed()) return;
  for (const auto& [key, value] : object_->get_ref<const Json::object_t&>()) {
    if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
    const std::string_view name = shortened(key, 128);
    fail(Code::kUnknownField, name,
         fmt::format("'{}' is not a field of this request", path_of(name)));
    return;
  }
}

}  // namespace kvasir::api
