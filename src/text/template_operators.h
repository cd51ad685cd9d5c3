// What Python's operators do with values.
#pragma once

#include <compare>
#include <memory>
#include <string>
#include <string_view>

#include "text/template_runtime.h"

namespace kvasir::text::templates {

bool is_true(const Value& value);

// and, or are the evaluator's: they do not always look at their right side.
Result<Value> apply(Runtime& runtime, ast::BinaryOp op, const Value& left, const Value& right);
Result<Value> negated(const Value& value, ast::UnaryOp sign);
Result<bool> compare(Runtime& runtime, ast::CompareOp op, const Value& left, const Value& right);
Result<bool> equal(Runtime& runtime, const Value& left, const Value& right);
// For sorting: kInvalid if Python has no order between them.
Result<std::partial_ordering> order(Runtime& runtime, const Value& left, const Value& right);
Result<bool> contains(Runtime& runtime, const Value& container, const Value& item);

// Equal values, and only they, have equal keys; kInvalid for lists and dicts.
Result<std::string> hash_key(Runtime& runtime, const Value& value);
std::string hash_key_of_text(std::string_view text);

// object[index]; undefined if there is no such item.
Result<Value> subscript(Runtime& runtime, const Value& object, const Value& index);
// object.name: methods first, then items; undefined if there is neither.
Result<Value> attribute(Runtime& runtime, const Value& object, std::string_view name);
// object[start:stop:step]; None stands for a part left out.
Result<Value> slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
                    const Value& step);

// What a loop over `value` goes through.
Result<std::shared_ptr<const Sequence>> iterate(Runtime& runtime, const Value& value);
// len(value)
Result<size_t> length(Runtime& runtime, const Value& value);

// The error for using something undefined.
Error undefined_error(const Value& value);
// "expected a string, not 'int object'"
Error wrong_type(std::string_view wanted, const Value& value);

}  // namespace kvasir::text::templates
