// The functions that templates call by name: range, namespace, dict, raise_exception, strftime_now.
#pragma once

#include <string_view>

#include "text/template_runtime.h"

namespace kvasir::text::templates {

// nullptr if there is none of this name.
NativeFunction find_function(std::string_view name);

}  // namespace kvasir::text::templates
