#include "config/config_file.h"

// The library (3.3.0) meets some malformed texts, such as "[.a]", with a failed assertion. Here
// that is an error like others.
namespace kvasir::config {
namespace {
struct NotToml {};
[[noreturn]] void throw_not_toml() {
  throw NotToml();
}
}  // namespace
}  // namespace kvasir::config
#define TOML_ASSERT(condition) ((condition) ? void() : ::kvasir::config::throw_not_toml())
#define TOML_EXCEPTIONS 1
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_WINDOWS_COMPAT 0
#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace kvasir::config {
namespace {

Place place_of(const toml::source_region& source, const std::string& file) {
  return {file, source.begin.line, source.begin.column};
}

Scalar scalar_of(const toml::node& node) {
  if (const auto* value = node.as_boolean())
    return {Scalar::Kind::kBoolean, value->get() ? "true" : "false"};
  if (const auto* value = node.as_integer())
    return {Scalar::Kind::kWhole, std::to_string(value->get())};
  if (const auto* value = node.as_floating_point())
    return {Scalar::Kind::kReal, fmt::format("{}", value->get())};
  if (const auto* value = node.as_string()) return {Scalar::Kind::kText, value->get()};
  return {};
}

FileValue file_value(std::string verb, std::string key, const toml::node& node,
                     const std::string& file) {
  FileValue value{std::move(verb), std::move(key), false, {}, place_of(node.source(), file)};
  if (const toml::array* list = node.as_array()) {
    value.is_list = true;
    for (const toml::node& item : *list) value.scalars.push_back(scalar_of(item));
  } else {
    value.scalars.push_back(scalar_of(node));
  }
  return value;
}

bool takes(const Flag& flag, const Scalar& scalar) {
  using Kind = Scalar::Kind;
  switch (shape_of(flag)) {
    case Shape::kSwitch:
      return scalar.kind == Kind::kBoolean || (scalar.kind == Kind::kText && !flag.bare.empty());
    case Shape::kWhole:
      return scalar.kind == Kind::kWhole;
    case Shape::kNumber:
      return scalar.kind == Kind::kWhole || scalar.kind == Kind::kReal;
    case Shape::kTextOrWhole:
      return scalar.kind == Kind::kText || scalar.kind == Kind::kWhole;
    case Shape::kText:
      return scalar.kind == Kind::kText;
  }
  return false;
}

// "1,4,32" may be written as [1, 4, 32].
bool is_number_list(const Flag& flag) {
  return flag.type == "N,...";
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& words) {
  const std::optional<std::string> near = nearest(word, words);
  return near ? fmt::format("; the nearest is '{}'", *near) : "";
}

Error unknown_table(const Program& program, const FileValue& value) {
  std::vector<std::string> names;
  for (const Verb& verb : program.verbs)
    if (verb.has_settings) names.push_back(verb.name);
  return Error::invalid("{}: there is no table '{}'{}", place_text(value.place), value.verb,
                        did_you_mean(value.verb, names))
      .with_hint("a table is named after a command, and its keys after the command's flags");
}

Error unknown_key(const Verb& verb, const FileValue& value) {
  std::vector<std::string> keys;
  for (const Flag& flag : verb.flags)
    if (flag.is_setting && !flag.key.empty()) keys.push_back(flag.key);
  return Error::invalid("{}: '{}' has no key '{}'{}", place_text(value.place), verb.name, value.key,
                        did_you_mean(value.key, keys))
      .with_hint(fmt::format("kvasir config show {} lists all keys", verb.name));
}

Result<void> check_value(const Program& program, const FileValue& value, const ValueCheck& check) {
  if (value.verb.empty())
    return Error::invalid("{}: the key '{}' stands in no table", place_text(value.place), value.key)
        .with_hint("put it below the name of a command, such as [serve]");
  const Verb* verb = find_verb(program, value.verb);
  if (verb == nullptr || !verb->has_settings) return unknown_table(program, value);
  if (value.key.empty()) return {};  // the table itself
  const Flag* flag = find_setting(*verb, value.key);
  if (flag == nullptr) return unknown_key(*verb, value);
  if (value.is_list && !flag->repeatable && !is_number_list(*flag))
    return Error::invalid("{}: '{}' needs {}, not a list", place_text(value.place), value.key,
                          shape_text(*flag));
  for (const Scalar& scalar : value.scalars) {
    if (!takes(*flag, scalar))
      return Error::invalid("{}: '{}' needs {}", place_text(value.place), value.key,
                            shape_text(*flag));
    if (scalar.text.find('\0') != std::string::npos)
      return Error::invalid("{}: '{}' holds a zero byte", place_text(value.place), value.key);
  }
  const std::vector<std::string> texts = value_texts(*flag, value);
  const bool is_off =
      shape_of(*flag) == Shape::kSwitch && texts == std::vector<std::string>{"false"};
  if (texts.empty() || is_off) return {};
  if (Result<void> checked = check(*verb, *flag, texts); !checked)
    return std::move(checked.error())
        .in(fmt::format("{}: '{}'", place_text(value.place), value.key));
  return {};
}

// Dotted keys nest tables, and each level is one more call when they are destroyed. They stand on
// one line; a text of so many dots on one line is no loss.
constexpr ptrdiff_t kDotsMax = 1000;

Result<void> check_dots(std::string_view text, const std::string& file) {
  for (uint32_t line = 1; !text.empty(); ++line) {
    const std::string_view one = text.substr(0, text.find('\n'));
    if (std::count(one.begin(), one.end(), '.') > kDotsMax)
      return Error::invalid("{}: more than {} dots on one line", place_text({file, line, 1}),
                            kDotsMax);
    text.remove_prefix(std::min(one.size() + 1, text.size()));
  }
  return {};
}

bool is_no_toml(std::string_view text) {
  try {
    (void)toml::parse(text);
  } catch (const toml::parse_error&) {
  } catch (const NotToml&) {
    return true;
  }
  return false;
}

// Where the assertion fails: the parser reads from left to right, so that texts fail from one
// length on.
Place place_of_failure(std::string_view text, const std::string& file) {
  size_t good = 0, bad = text.size();
  while (good + 1 < bad) {
    const size_t middle = good + (bad - good) / 2;
    (is_no_toml(text.substr(0, middle)) ? bad : good) = middle;
  }
  const std::string_view before = text.substr(0, bad - 1);
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  return {file, static_cast<uint32_t>(1 + std::count(before.begin(), before.end(), '\n')),
          static_cast<uint32_t>(1 + before.size() - line_begin)};
}

Result<toml::table> parse_toml(std::string_view text, const std::string& file) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    return Error::invalid("{}: {}", place_text(place_of(error.source(), file)),
                          error.description());
  } catch (const NotToml&) {
    return Error::invalid("{}: this is no TOML", place_text(place_of_failure(text, file)));
  }
}

}  // namespace

std::string place_text(const Place& place) {
  return fmt::format("{}:{}:{}", place.file, place.line, place.column);
}

Result<std::vector<FileValue>> parse_config(std::string_view text, const std::string& file) {
  if (text.size() > kConfigBytesMax)
    return Error::limit("{}: longer than {} bytes", file, kConfigBytesMax);
  KVASIR_TRY_VOID(check_dots(text, file));
  KVASIR_TRY(const toml::table parsed, parse_toml(text, file));
  std::vector<FileValue> values;
  for (const auto& [name, node] : parsed) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      values.push_back(file_value("", std::string(name.str()), node, file));
      continue;
    }
    // The table itself, so that an empty one is checked, too.
    values.push_back({std::string(name.str()), "", false, {}, place_of(name.source(), file)});
    for (const auto& [key, value] : *table)
      values.push_back(file_value(std::string(name.str()), std::string(key.str()), value, file));
  }
  return values;
}

std::vector<std::string> value_texts(const Flag& flag, const FileValue& value) {
  std::vector<std::string> texts;
  for (const Scalar& scalar : value.scalars) texts.push_back(scalar.text);
  if (value.is_list && is_number_list(flag)) return {fmt::format("{}", fmt::join(texts, ","))};
  return texts;
}

Result<void> check_config(const Program& program, const std::vector<FileValue>& values,
                          const ValueCheck& check) {
  for (const FileValue& value : values) KVASIR_TRY_VOID(check_value(program, value, check));
  return {};
}

}  // namespace kvasir::config
