#include "text/template_arguments.h"

#include <algorithm>

#include "text/template_operators.h"

namespace kvasir::text::templates {

Result<BoundArguments> BoundArguments::bind(const Arguments& arguments,
                                            std::initializer_list<std::string_view> parameters,
                                            size_t required) {
  BoundArguments bound;
  bound.values_.resize(parameters.size());
  if (arguments.positional.size() > parameters.size()) {
    return Error::invalid("{} arguments, at most {} are taken", arguments.positional.size(),
                          parameters.size());
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    bound.values_[i] = arguments.positional[i];
  }
  for (const auto& [name, value] : arguments.named) {
    const auto* const found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) return Error::invalid("there is no parameter '{}'", name);
    auto& slot = bound.values_[static_cast<size_t>(found - parameters.begin())];
    if (slot) return Error::invalid("the argument '{}' is given twice", name);
    slot = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!bound.values_[i]) {
      return Error::invalid("the argument '{}' is missing", *(parameters.begin() + i));
    }
  }
  return bound;
}

Result<int64_t> BoundArguments::integer(size_t i, int64_t default_value) const {
  if (!values_[i]) return default_value;
  const auto integer = values_[i]->integer();
  if (!integer) return wrong_type("an integer", *values_[i]);
  return *integer;
}

bool BoundArguments::flag(size_t i, bool default_value) const {
  return values_[i] ? is_true(*values_[i]) : default_value;
}

Result<MarkedText> BoundArguments::text(size_t i, std::string_view default_value) const {
  if (!values_[i]) return MarkedText(std::string(default_value), Origin::kTemplate);
  const MarkedText* text = values_[i]->string();
  if (text == nullptr) return wrong_type("a string", *values_[i]);
  return *text;
}

Result<std::optional<MarkedText>> BoundArguments::optional_text(size_t i) const {
  if (!is_given(i)) return std::optional<MarkedText>();
  KVASIR_TRY(MarkedText given, text(i, ""));
  return std::optional<MarkedText>(std::move(given));
}

}  // namespace kvasir::text::templates
