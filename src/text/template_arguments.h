// The arguments of a native function by the names of its parameters, as Python binds them.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/template_runtime.h"

namespace kvasir::text::templates {

class BoundArguments {
 public:
  // kInvalid for too many, unknown or repeated ones, and if one of the first `required` is missing.
  static Result<BoundArguments> bind(const Arguments& arguments,
                                     std::initializer_list<std::string_view> parameters,
                                     size_t required = 0);

  // nullptr if it was not given.
  const Value* find(size_t i) const { return values_[i] ? &*values_[i] : nullptr; }
  const Value& at(size_t i) const { return *values_[i]; }  // a required one
  // The default if it was not given; kInvalid for another type.
  Result<int64_t> integer(size_t i, int64_t default_value) const;
  bool flag(size_t i, bool default_value = false) const;  // as truth
  Result<MarkedText> text(size_t i, std::string_view default_value) const;
  // Absent if not given or None.
  Result<std::optional<MarkedText>> optional_text(size_t i) const;
  bool is_given(size_t i) const { return values_[i] && !values_[i]->is_none(); }

 private:
  std::vector<std::optional<Value>> values_;
};

}  // namespace kvasir::text::templates
