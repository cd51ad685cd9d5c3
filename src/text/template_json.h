// JSON as data for a chat template. Apart from template_value.h so that only those who have JSON
// see its library.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <utility>

#include "base/error.h"
#include "text/template_value.h"

namespace kvasir::text {

// Deeper JSON than templates may look at anyway (kTemplateNestingMax).
inline constexpr int kTemplateJsonDepthMax = 200;

// Json: nlohmann::ordered_json, or nlohmann::json, whose objects are sorted by key. Integers beyond
// 64 signed bits become floating point. kLimit if it is nested deeper than kTemplateJsonDepthMax.
template <typename Json>
Result<TemplateValue> template_value_of(const Json& json, int depth = 0) {
  if (depth > kTemplateJsonDepthMax) {
    return Error::limit("JSON is nested deeper than {}", kTemplateJsonDepthMax);
  }
  switch (json.type()) {
    case nlohmann::detail::value_t::boolean:
      return TemplateValue(json.template get<bool>());
    case nlohmann::detail::value_t::number_integer:
      return TemplateValue(json.template get<int64_t>());
    case nlohmann::detail::value_t::number_unsigned: {
      const auto number = json.template get<uint64_t>();
      if (number > uint64_t{INT64_MAX}) return TemplateValue(static_cast<double>(number));
      return TemplateValue(static_cast<int64_t>(number));
    }
    case nlohmann::detail::value_t::number_float:
      return TemplateValue(json.template get<double>());
    case nlohmann::detail::value_t::string:
      return TemplateValue(json.template get<std::string>());
    case nlohmann::detail::value_t::array: {
      TemplateValue::Array items;
      items.reserve(json.size());
      for (const auto& item : json) {
        KVASIR_TRY(TemplateValue value, template_value_of(item, depth + 1));
        items.push_back(std::move(value));
      }
      return TemplateValue(std::move(items));
    }
    case nlohmann::detail::value_t::object: {
      TemplateValue::Object members;
      members.reserve(json.size());
      for (auto member = json.begin(); member != json.end(); ++member) {
        KVASIR_TRY(TemplateValue value, template_value_of(member.value(), depth + 1));
        members.emplace_back(member.key(), std::move(value));
      }
      return TemplateValue(std::move(members));
    }
    default:
      return TemplateValue();
  }
}

}  // namespace kvasir::text
