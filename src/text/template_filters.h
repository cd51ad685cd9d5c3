// The filters and tests that templates know by name.
#pragma once

#include <string_view>

#include "text/template_runtime.h"

namespace kvasir::text::templates {

// nullptr if there is none of this name.
NativeFunction find_filter(std::string_view name);
NativeFunction find_test(std::string_view name);

// kUnsupported if there is none of this name.
Result<Value> call_filter(Runtime& runtime, std::string_view name, const Value& input,
                          const Arguments& arguments);
Result<bool> call_test(Runtime& runtime, std::string_view name, const Value& input,
                       const Arguments& arguments);

}  // namespace kvasir::text::templates
