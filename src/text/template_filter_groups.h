// The filters, by what they work on; template_filters.h finds them.
#pragma once

#include <span>
#include <string_view>

#include "text/template_runtime.h"

namespace kvasir::text::templates {

struct NamedFilter {
  std::string_view name;
  NativeFunction function;
};
std::span<const NamedFilter> text_filters();
std::span<const NamedFilter> number_filters();
std::span<const NamedFilter> list_filters();  // and dicts

// input|map(attribute=...), for other filters that take an attribute.
Result<Value> call_map_attribute(Runtime& runtime, const Value& input, const Value& attribute);

}  // namespace kvasir::text::templates
