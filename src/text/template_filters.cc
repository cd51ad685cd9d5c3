#include "text/template_filters.h"

#include <map>

#include "text/template_filter_groups.h"

namespace kvasir::text::templates {

NativeFunction find_filter(std::string_view name) {
  static const std::map<std::string_view, NativeFunction> kFilters = [] {
    std::map<std::string_view, NativeFunction> filters;
    for (const auto& group : {text_filters(), number_filters(), list_filters()}) {
      for (const NamedFilter& filter : group) filters.emplace(filter.name, filter.function);
    }
    return filters;
  }();
  const auto found = kFilters.find(name);
  return found == kFilters.end() ? nullptr : found->second;
}

Result<Value> call_filter(Runtime& runtime, std::string_view name, const Value& input,
                          const Arguments& arguments) {
  const NativeFunction filter = find_filter(name);
  if (filter == nullptr) return Error::unsupported("the filter '{}' is not supported", name);
  KVASIR_TRY_VOID(runtime.spend(1));
  KVASIR_TRY(const auto nested, runtime.nest());
  return filter(runtime, input, arguments);
}

}  // namespace kvasir::text::templates
