#include "config/settings_text.h"

#include <charconv>
#include <nlohmann/json.hpp>

namespace kvasir::config {
namespace {

using Json = nlohmann::ordered_json;

// A TOML text on one line.
std::string toml_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      quoted += fmt::format("\\{}", c);
    else if (c == '\n')
      quoted += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    else
      quoted += c;
  }
  return quoted + '"';
}

std::string toml_value(const Flag& flag, const std::string& value) {
  switch (shape_of(flag)) {
    case Shape::kSwitch:
      return value == "true" || value == "false" ? value : toml_text(value);
    case Shape::kWhole:
    case Shape::kNumber:
      return value;
    case Shape::kTextOrWhole:
    case Shape::kText:
      return toml_text(value);
  }
  return "";
}

std::string toml_values(const Setting& setting) {
  if (!setting.flag->repeatable) return toml_value(*setting.flag, setting.values.front());
  std::string list;
  for (const std::string& value : setting.values)
    list += (list.empty() ? "" : ", ") + toml_value(*setting.flag, value);
  return "[" + list + "]";
}

std::string toml_line(const Setting& setting) {
  const Flag& flag = *setting.flag;
  if (setting.origin.kind != Origin::Kind::kDefault)
    return fmt::format("{} = {}", flag.key, toml_values(setting));
  if (shape_of(flag) == Shape::kSwitch && flag.bare.empty())
    return fmt::format("# {} = false", flag.key);
  const std::string text = default_text(flag);
  return fmt::format("# {}: {}", flag.key, text.empty() ? "not set" : text);
}

template <typename Number>
std::optional<Number> parsed(const std::string& text) {
  Number number{};
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

Json json_value(const Flag& flag, const std::string& value) {
  switch (shape_of(flag)) {
    case Shape::kSwitch:
      if (value == "true" || value == "false") return value == "true";
      return value;
    case Shape::kWhole:
      if (const auto number = parsed<uint64_t>(value)) return *number;
      return value;
    case Shape::kNumber:
      if (const auto number = parsed<double>(value)) return *number;
      return value;
    case Shape::kTextOrWhole:
    case Shape::kText:
      return value;
  }
  return value;
}

Json json_values(const Setting& setting) {
  const Flag& flag = *setting.flag;
  if (setting.origin.kind == Origin::Kind::kDefault)
    return shape_of(flag) == Shape::kSwitch && flag.bare.empty() ? Json(false) : Json(nullptr);
  if (!flag.repeatable) return json_value(flag, setting.values.front());
  Json list = Json::array();
  for (const std::string& value : setting.values) list.push_back(json_value(flag, value));
  return list;
}

}  // namespace

std::string settings_as_toml(const std::vector<VerbSettings>& all, ShowOrigin origin) {
  // Origins begin in one column where lines are not very long.
  constexpr size_t kColumn = 40;
  std::string text;
  for (const VerbSettings& verb : all) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", verb.verb->name);
    for (const Setting& setting : verb.settings) {
      const std::string line = toml_line(setting);
      if (origin == ShowOrigin::kNo)
        text += line + "\n";
      else
        text += fmt::format("{:<{}}  # {}\n", line, kColumn, setting.origin.text);
    }
  }
  return text;
}

std::string settings_as_json(const std::vector<VerbSettings>& all) {
  Json json = Json::object();
  for (const VerbSettings& verb : all) {
    Json& keys = json[verb.verb->name] = Json::object();
    for (const Setting& setting : verb.settings) {
      const std::string text = default_text(*setting.flag);
      keys[setting.flag->key] = {
          {"value", json_values(setting)},
          {"origin", origin_name(setting.origin.kind)},
          {"from", setting.origin.text},
          {"default", text.empty() ? Json(nullptr) : Json(text)},
          {"variable", variable_name(*verb.verb, *setting.flag)},
      };
    }
  }
  // Bytes of the environment may be no UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kvasir::config
