// What Python's methods do with strings. Whoever cuts a string keeps its marks; whoever rewrites it
// gets data as soon as any part of it was data.
#pragma once

#include <optional>
#include <string_view>

#include "text/template_characters.h"
#include "text/template_runtime.h"

namespace kvasir::text::templates {

// Without `characters` at the ends; absent: white space.
Result<Value> strip(Runtime& runtime, const MarkedText& text, Strip side,
                    const std::optional<MarkedText>& characters);

// A negative count: all. `separator` absent: runs of white space.
Result<Value> split(Runtime& runtime, const MarkedText& text,
                    const std::optional<MarkedText>& separator, int64_t splits_max);
Result<Value> rsplit(Runtime& runtime, const MarkedText& text,
                     const std::optional<MarkedText>& separator, int64_t splits_max);
Result<Value> split_lines(Runtime& runtime, const MarkedText& text, bool keeps_ends);
Result<Value> replaced(Runtime& runtime, const MarkedText& text, const MarkedText& old_text,
                       const MarkedText& new_text, int64_t count_max);
// `items` are strings, or are made to be if `converts`.
Result<Value> joined(Runtime& runtime, const MarkedText& separator, const Value& items,
                     bool converts);

// The method of this name, nullptr if strings have none.
NativeFunction find_string_method(std::string_view name);

}  // namespace kvasir::text::templates
