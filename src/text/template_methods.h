// Methods of strings, lists and dicts, and the attributes of "loop" and of namespaces.
#pragma once

#include <optional>
#include <string_view>

#include "text/template_runtime.h"

namespace kvasir::text::templates {

// What Python's getattr finds: a method, or an attribute of a loop or a namespace. nullopt if there
// is nothing of that name. A method that would change the object is undefined: the sandbox forbids
// it. `object` is not undefined.
Result<std::optional<Value>> python_attribute(Runtime& runtime, const Value& object,
                                              std::string_view name);

// format % values: %s, %r, %d, %i, %f, %x, %X, %%, with flags, width and precision.
Result<Value> printf_formatted(Runtime& runtime, const MarkedText& format, const Value& values);

}  // namespace kvasir::text::templates
