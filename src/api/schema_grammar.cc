#include "api/schema_grammar.h"

#include <map>

#include "api/json_reader.h"
#include "api/json_writer.h"

namespace kvasir::api {
namespace {

using text::JsonGrammar;
using NodeId = JsonGrammar::NodeId;

// What a schema says about itself, and nothing about values.
constexpr std::string_view kAnnotations[] = {
    "title",     "description", "default", "examples", "example", "deprecated", "readOnly",
    "writeOnly", "$comment",    "$schema", "$id",      "$defs",   "definitions"};

constexpr std::string_view kTypes[] = {"object", "array",   "string", "integer",
                                       "number", "boolean", "null"};

bool is_annotation(std::string_view key) {
  return std::find(std::begin(kAnnotations), std::end(kAnnotations), key) != std::end(kAnnotations);
}

bool has_type(const Json& value, std::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  return value.is_null();
}

// Compiles one schema into a grammar that may hold others already. Depth of recursion is that of
// the JSON: a reference leads to a node that is compiled once.
class Compiler {
 public:
  Compiler(JsonGrammar& grammar, const Json& root, std::string param)
      : grammar_(grammar), root_(root), param_(std::move(param)) {}

  Outcome<NodeId> compile() {
    KVASIR_TRY(const NodeId node, schema(root_, ""));
    // Definitions wait until they are referred to, and refer to others.
    while (!waiting_.empty()) {
      const auto [name, placeholder] = waiting_.back();
      waiting_.pop_back();
      const Json* target = find_definition(name);
      KVASIR_TRY(const NodeId compiled, schema(*target, name.substr(1)));
      grammar_.define(placeholder, compiled);
    }
    return node;
  }

 private:
  template <typename... Args>
  ApiError refuse(std::string_view place, fmt::format_string<Args...> format, Args&&... args) {
    return ApiError::of(Code::kUnsupportedSchema, param_, "schema, at '#{:.256}': {}", place,
                        fmt::format(format, std::forward<Args>(args)...));
  }

  // Nothing but `key`, what goes with it, and annotations may stand there.
  Outcome<void> only(const Json& object, const std::string& place,
                     std::initializer_list<std::string_view> keys) {
    for (const auto& [key, value] : object.items()) {
      if (is_annotation(key) || std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      return refuse(place, "'{:.64}' cannot be enforced here", key);
    }
    return {};
  }

  Outcome<NodeId> schema(const Json& value, const std::string& place) {
    if (value.is_boolean()) {
      if (value.get<bool>()) return grammar_.any_value();
      return refuse(place, "nothing can match 'false'");
    }
    if (!value.is_object()) return refuse(place, "a schema is an object or true");
    if (value.contains("$ref")) return reference(value, place);
    if (value.contains("enum") || value.contains("const")) return values(value, place);
    for (const std::string_view key : {"anyOf", "oneOf", "allOf"})
      if (value.contains(key)) return branches(value, std::string(key), place);
    return typed(value, place);
  }

  const Json* find_definition(const std::string& name) const {
    const Json* found = &root_;
    std::string_view rest = std::string_view(name).substr(1);  // behind '#'
    while (!rest.empty()) {
      rest.remove_prefix(1);  // '/'
      const std::string key(rest.substr(0, rest.find('/')));
      rest.remove_prefix(key.size());
      if (!found->is_object()) return nullptr;
      const auto member = found->find(key);
      if (member == found->end()) return nullptr;
      found = &*member;
    }
    return found;
  }

  Outcome<NodeId> reference(const Json& value, const std::string& place) {
    KVASIR_TRY_VOID(only(value, place, {"$ref"}));
    const Json& target = value["$ref"];
    if (!target.is_string()) return refuse(place, "'$ref' is a string");
    const auto name = target.get<std::string>();
    const bool local =
        name == "#" || name.starts_with("#/$defs/") || name.starts_with("#/definitions/");
    if (!local || name.find('~') != std::string::npos || name.find('%') != std::string::npos) {
      return refuse(place,
                    "'$ref' may be '#', '#/$defs/NAME' or '#/definitions/NAME', it is "
                    "'{:.128}'",
                    name);
    }
    if (const auto known = definitions_.find(name); known != definitions_.end())
      return known->second;
    if (find_definition(name) == nullptr) return refuse(place, "there is no '{:.128}'", name);
    if (definitions_.size() == kDefinitionsMax)
      return refuse(place, "more than {} definitions", kDefinitionsMax);
    const NodeId placeholder = grammar_.placeholder();
    definitions_[name] = placeholder;
    waiting_.emplace_back(name, placeholder);
    return placeholder;
  }

  Outcome<NodeId> values(const Json& value, const std::string& place) {
    KVASIR_TRY_VOID(only(value, place, {"enum", "const", "type"}));
    KVASIR_TRY(const std::vector<std::string_view> types, types_of(value, place));
    std::vector<NodeId> literals;
    const auto add = [&](const Json& one) {
      const bool wanted = std::any_of(types.begin(), types.end(),
                                      [&](std::string_view type) { return has_type(one, type); });
      if (wanted) literals.push_back(grammar_.literal(to_text(one)));
    };
    if (const auto list = value.find("enum"); list != value.end()) {
      if (!list->is_array() || list->size() > kEnumValuesMax)
        return refuse(place, "'enum' is an array of at most {} values", kEnumValuesMax);
      const auto constant = value.find("const");
      for (const Json& one : *list)
        if (constant == value.end() || *constant == one) add(one);
    } else {
      add(value["const"]);
    }
    if (literals.empty()) return refuse(place, "no value is possible");
    return grammar_.choice(std::move(literals));
  }

  Outcome<NodeId> branches(const Json& value, const std::string& key, const std::string& place) {
    KVASIR_TRY_VOID(only(value, place, {key}));
    const Json& list = value[key];
    if (!list.is_array() || list.empty() || list.size() > kBranchesMax) {
      return refuse(place, "'{}' is an array of 1 to {} schemas", key, kBranchesMax);
    }
    if (key == "allOf" && list.size() > 1)
      return refuse(place, "'allOf' of more than one schema cannot be enforced");
    if (key == "oneOf") {
      for (size_t i = 0; i < list.size(); ++i)
        for (size_t k = 0; k < i; ++k)
          if (!disjoint(list[i], list[k]))
            return refuse(place,
                          "'oneOf' whose branches {} and {} may both match cannot be "
                          "enforced; 'anyOf' can",
                          k, i);
    }
    std::vector<NodeId> nodes;
    for (size_t i = 0; i < list.size(); ++i) {
      KVASIR_TRY(const NodeId node, schema(list[i], fmt::format("{}/{}/{}", place, key, i)));
      nodes.push_back(node);
    }
    return grammar_.choice(std::move(nodes));
  }

  // Behind references, as far as they lead to something; they may lead in a circle.
  const Json& resolved(const Json& value) const {
    const Json* found = &value;
    for (int i = 0; i < 16 && found->is_object() && found->contains("$ref"); ++i) {
      const Json& name = (*found)["$ref"];
      if (!name.is_string() || !name.get_ref<const std::string&>().starts_with("#")) break;
      const Json* next = find_definition(name.get<std::string>());
      if (next == nullptr) break;
      found = next;
    }
    return *found;
  }

  // Texts of the only values there are, 1 and 1.0 alike; nothing if they are not that plain.
  static std::optional<std::set<std::string>> listed(const Json& value) {
    if (!value.is_object()) return std::nullopt;
    Json list = Json::array();
    if (value.contains("const")) {
      list.push_back(value["const"]);
    } else if (value.contains("enum") && value["enum"].is_array()) {
      list = value["enum"];
    } else {
      return std::nullopt;
    }
    std::set<std::string> texts;
    for (const Json& one : list) {
      if (one.is_structured()) return std::nullopt;
      texts.insert(one.is_number() ? to_text(Json(one.get<double>())) : to_text(one));
    }
    return texts;
  }

  static bool share(const std::set<std::string>& a, const std::set<std::string>& b) {
    return std::any_of(a.begin(), a.end(),
                       [&](const std::string& text) { return b.count(text) != 0; });
  }

  static std::set<std::string> type_names(const Json& value) {
    std::set<std::string> names;
    if (!value.is_object() || !value.contains("type")) return names;
    const Json& type = value["type"];
    for (const Json& one : type.is_array() ? type : Json::array({type}))
      if (one.is_string()) names.insert(one.get<std::string>());
    if (names.count("integer") != 0) names.insert("number");
    return names;
  }

  // Certainly no value matches both: types, lists of values, or a member that tells them apart.
  bool disjoint(const Json& left, const Json& right) const {
    const Json& a = resolved(left);
    const Json& b = resolved(right);
    const auto a_values = listed(a);
    const auto b_values = listed(b);
    if (a_values && b_values) return !share(*a_values, *b_values);
    const auto a_types = type_names(a);
    const auto b_types = type_names(b);
    if (!a_types.empty() && !b_types.empty() && !share(a_types, b_types)) return true;
    if (a_types != std::set<std::string>{"object"} || b_types != a_types) return false;
    const auto required = [](const Json& object, const std::string& key) {
      const auto list = object.find("required");
      return list != object.end() && list->is_array() &&
             std::find(list->begin(), list->end(), key) != list->end();
    };
    if (!a.contains("properties") || !a["properties"].is_object()) return false;
    if (!b.contains("properties") || !b["properties"].is_object()) return false;
    for (const auto& [key, property] : a["properties"].items()) {
      const auto other = b["properties"].find(key);
      if (other == b["properties"].end() || !required(a, key) || !required(b, key)) continue;
      const auto here = listed(resolved(property));
      const auto there = listed(resolved(*other));
      if (here && there && !share(*here, *there)) return true;
    }
    return false;
  }

  // All types if none is named.
  Outcome<std::vector<std::string_view>> types_of(const Json& value, const std::string& place) {
    std::vector<std::string_view> types;
    const auto type = value.find("type");
    if (type == value.end()) return std::vector(std::begin(kTypes), std::end(kTypes));
    const auto add = [&](const Json& name) {
      const auto* known = std::find(std::begin(kTypes), std::end(kTypes), name);
      if (known == std::end(kTypes)) return false;
      types.push_back(*known);
      return true;
    };
    bool good = true;
    if (type->is_array()) {
      good = !type->empty() && type->size() <= std::size(kTypes);
      for (const Json& name : *type) good = good && add(name);
    } else {
      good = add(*type);
    }
    if (!good) return refuse(place, "'type' is a type's name or an array of these");
    return types;
  }

  Outcome<NodeId> typed(const Json& value, const std::string& place) {
    KVASIR_TRY_VOID(only(value, place,
                         {"type", "properties", "required", "additionalProperties", "items",
                          "minItems", "maxItems"}));
    if (!value.contains("type")) {
      // Only the keywords tell what is meant.
      const bool object = value.contains("properties") || value.contains("required") ||
                          value.contains("additionalProperties");
      const bool array =
          value.contains("items") || value.contains("minItems") || value.contains("maxItems");
      if (object && array) return refuse(place, "'type' is missing");
      if (object) return object_schema(value, place);
      if (array) return array_schema(value, place);
      return grammar_.any_value();
    }
    KVASIR_TRY(const std::vector<std::string_view> types, types_of(value, place));
    std::vector<NodeId> nodes;
    for (const std::string_view type : types) {
      KVASIR_TRY(const NodeId node, of_type(value, type, place));
      nodes.push_back(node);
    }
    return nodes.size() == 1 ? nodes.front() : grammar_.choice(std::move(nodes));
  }

  Outcome<NodeId> of_type(const Json& value, std::string_view type, const std::string& place) {
    if (type == "object") return object_schema(value, place);
    if (type == "array") return array_schema(value, place);
    if (type == "string") return grammar_.string();
    if (type == "integer") return grammar_.integer();
    if (type == "number") return grammar_.number();
    if (type == "null") return grammar_.literal("null");
    return grammar_.choice({grammar_.literal("true"), grammar_.literal("false")});
  }

  Outcome<uint32_t> count(const Json& value, const char* key, uint32_t otherwise,
                          const std::string& place) {
    const auto found = value.find(key);
    if (found == value.end()) return otherwise;
    if (!found->is_number_unsigned() || found->get<uint64_t>() > JsonGrammar::kElementsMax)
      return refuse(place, "'{}' is an integer of 0 to {}", key, JsonGrammar::kElementsMax);
    return static_cast<uint32_t>(found->get<uint64_t>());
  }

  Outcome<NodeId> array_schema(const Json& value, const std::string& place) {
    KVASIR_TRY(const uint32_t least, count(value, "minItems", 0, place));
    KVASIR_TRY(const uint32_t most, count(value, "maxItems", JsonGrammar::kUnlimited, place));
    if (least > most) return refuse(place, "'minItems' is above 'maxItems'");
    NodeId element = grammar_.any_value();
    if (const auto items = value.find("items"); items != value.end()) {
      if (most == 0) return grammar_.array(element, 0, 0);
      KVASIR_TRY(element, schema(*items, place + "/items"));
    }
    return grammar_.array(element, least, most);
  }

  Outcome<NodeId> object_schema(const Json& value, const std::string& place) {
    static const Json none = Json::object();
    const auto properties = value.find("properties");
    const Json& listed_properties = properties == value.end() ? none : *properties;
    if (!listed_properties.is_object()) return refuse(place, "'properties' is an object");
    std::set<std::string> required;
    if (const auto list = value.find("required"); list != value.end()) {
      if (!list->is_array()) return refuse(place, "'required' is an array of names");
      for (const Json& name : *list) {
        if (!name.is_string()) return refuse(place, "'required' is an array of names");
        required.insert(name.get<std::string>());
      }
    }
    const auto others = value.find("additionalProperties");
    const bool closed = others != value.end() && others->is_boolean() && !others->get<bool>();
    NodeId other = grammar_.any_value();
    if (others != value.end() && !closed) {
      KVASIR_TRY(other, schema(*others, place + "/additionalProperties"));
    }
    if (listed_properties.empty() && required.empty() && !closed) return grammar_.map(other);

    std::vector<JsonGrammar::Member> members;
    for (const auto& [key, property] : listed_properties.items()) {
      const bool wanted = required.erase(key) != 0;
      // `false`: never there.
      if (!wanted && property.is_boolean() && !property.get<bool>()) continue;
      KVASIR_TRY(const NodeId node, schema(property, fmt::format("{}/properties/{}", place, key)));
      members.push_back({key, node, wanted});
    }
    for (const std::string& key : required) {
      if (closed) return refuse(place, "'{:.64}' is required and not among the properties", key);
      members.push_back({key, other, true});
    }
    return grammar_.object(members);
  }

  JsonGrammar& grammar_;
  const Json& root_;
  std::string param_;
  std::map<std::string, NodeId> definitions_;
  std::vector<std::pair<std::string, NodeId>> waiting_;
};

Outcome<NodeId> compile_into(JsonGrammar& grammar, std::string_view schema,
                             std::string_view param) {
  if (schema.size() > kSchemaBytesMax) {
    return ApiError::of(Code::kUnsupportedSchema, param,
                        "the schema has {} bytes, at most {} are taken", schema.size(),
                        kSchemaBytesMax);
  }
  auto root = parse_json(schema);
  if (!root) {
    return ApiError::of(Code::kUnsupportedSchema, param, "the schema cannot be read: {}",
                        root.error().message);
  }
  return Compiler(grammar, *root, std::string(param)).compile();
}

Outcome<SharedGrammar> finished(std::shared_ptr<JsonGrammar> grammar, NodeId root,
                                std::string_view param) {
  if (auto done = grammar->finish(root); !done)
    return ApiError::of(Code::kUnsupportedSchema, param, "schema: {}", done.error().message);
  return SharedGrammar(std::move(grammar));
}

}  // namespace

Outcome<SharedGrammar> compile_schema(std::string_view schema, std::string_view param) {
  auto grammar = std::make_shared<JsonGrammar>();
  KVASIR_TRY(const NodeId root, compile_into(*grammar, schema, param));
  return finished(std::move(grammar), root, param);
}

Outcome<SharedGrammar> compile_format(const OutputFormat& format) {
  switch (format.kind) {
    case OutputFormat::Kind::kText:
      return SharedGrammar();
    case OutputFormat::Kind::kJsonObject: {
      auto grammar = std::make_shared<JsonGrammar>();
      const NodeId root = grammar->any_object();
      return finished(std::move(grammar), root, "response_format");
    }
    case OutputFormat::Kind::kJsonSchema:
      break;
  }
  return compile_schema(format.schema, "response_format");
}

Outcome<SharedGrammar> compile_tool_calls(std::span<const Tool> tools, const Envelope& envelope) {
  KVASIR_CHECK(!tools.empty());
  auto grammar = std::make_shared<JsonGrammar>();
  std::vector<NodeId> calls;
  for (size_t i = 0; i < tools.size(); ++i) {
    std::string prefix = std::string(envelope.prefix) + "{\"name\": ";
    append_json_string(prefix, tools[i].name);
    prefix += ", \"arguments\": ";
    // Arguments are an object even where the schema says nothing.
    NodeId arguments = grammar->any_object();
    if (tools[i].parameters != "{}") {
      KVASIR_TRY(arguments, compile_into(*grammar, tools[i].parameters,
                                         fmt::format("tools[{}].function.parameters", i)));
    }
    calls.push_back(grammar->sequence({grammar->literal(std::move(prefix)), arguments,
                                       grammar->literal(fmt::format("}}{}", envelope.suffix))}));
  }
  const NodeId root = grammar->choice(std::move(calls));
  return finished(std::move(grammar), root, "tools");
}

}  // namespace kvasir::api
