// Tests: {{ x is defined }}.
#include <cmath>
#include <map>

#include "text/template_arguments.h"
#include "text/template_filters.h"
#include "text/template_operators.h"
#include "text/template_strings.h"

namespace kvasir::text::templates {
namespace {

template <auto kHolds>
Result<Value> about_value(Runtime&, const Value& value, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {}));
  return Value(kHolds(value));
}

bool is_defined(const Value& value) {
  return !value.is_undefined();
}
bool is_undefined(const Value& value) {
  return value.is_undefined();
}
bool is_none(const Value& value) {
  return value.is_none();
}
bool is_boolean(const Value& value) {
  return value.boolean() != nullptr;
}
bool is_true_itself(const Value& value) {
  return value.boolean() != nullptr && *value.boolean();
}
bool is_false_itself(const Value& value) {
  return value.boolean() != nullptr && !*value.boolean();
}
bool is_integer(const Value& value) {
  return value.integer() && value.boolean() == nullptr;
}
bool is_float(const Value& value) {
  return value.floating() != nullptr;
}
bool is_number(const Value& value) {
  return value.is_number();
}
bool is_string(const Value& value) {
  return value.string() != nullptr;
}
bool is_mapping(const Value& value) {
  return value.dict() != nullptr;
}
bool is_sequence(const Value& value) {
  const Sequence* sequence = value.sequence();
  return value.is_undefined() || value.string() != nullptr || value.dict() != nullptr ||
         (sequence != nullptr && sequence->flavor <= Sequence::Flavor::kRange);
}
bool is_iterable(const Value& value) {
  return value.is_undefined() || value.string() != nullptr || value.dict() != nullptr ||
         value.sequence() != nullptr || value.loop() != nullptr;
}
bool is_callable(const Value& value) {
  return value.function() != nullptr || value.loop() != nullptr || value.is_undefined();
}
bool is_never(const Value&) {
  return false;
}

template <ast::CompareOp kOp>
Result<Value> comparison(Runtime& runtime, const Value& value, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"other"}, 1));
  KVASIR_TRY(const bool holds, compare(runtime, kOp, value, bound.at(0)));
  return Value(holds);
}

// value % divisor == rest
Result<Value> remainder_is(Runtime& runtime, const Value& value, const Value& divisor,
                           int64_t rest) {
  KVASIR_TRY(const Value found, apply(runtime, ast::BinaryOp::kModulo, value, divisor));
  KVASIR_TRY(const bool same, equal(runtime, found, Value(rest)));
  return Value(same);
}
template <int64_t kRest>
Result<Value> parity(Runtime& runtime, const Value& value, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {}));
  return remainder_is(runtime, value, Value(int64_t{2}), kRest);
}
Result<Value> divisible_by(Runtime& runtime, const Value& value, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"num"}, 1));
  return remainder_is(runtime, value, bound.at(0), 0);
}

// The same object. Plain values are the same when they are equal and of one type.
Result<Value> same_as(Runtime& runtime, const Value& value, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"other"}, 1));
  const Value& other = bound.at(0);
  if (value.data().index() != other.data().index()) return Value(false);
  if (value.sequence() != nullptr) return Value(value.sequence() == other.sequence());
  if (value.dict() != nullptr) return Value(value.dict() == other.dict());
  KVASIR_TRY(const bool same, equal(runtime, value, other));
  return Value(same);
}

template <bool kUpper>
Result<Value> case_test(Runtime& runtime, const Value& value, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {}));
  if (value.string() == nullptr) return Value(false);
  return find_string_method(kUpper ? "isupper" : "islower")(runtime, value, Arguments());
}

template <auto kFind>
Result<Value> names_one(Runtime&, const Value& value, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {}));
  return Value(value.string() != nullptr && kFind(value.string()->text()) != nullptr);
}

}  // namespace

NativeFunction find_test(std::string_view name) {
  static const std::map<std::string_view, NativeFunction> kTests = {
      {"!=", comparison<ast::CompareOp::kNotEqual>},
      {"<", comparison<ast::CompareOp::kLess>},
      {"<=", comparison<ast::CompareOp::kLessEqual>},
      {"==", comparison<ast::CompareOp::kEqual>},
      {">", comparison<ast::CompareOp::kGreater>},
      {">=", comparison<ast::CompareOp::kGreaterEqual>},
      {"boolean", about_value<is_boolean>},
      {"callable", about_value<is_callable>},
      {"defined", about_value<is_defined>},
      {"divisibleby", divisible_by},
      {"eq", comparison<ast::CompareOp::kEqual>},
      {"equalto", comparison<ast::CompareOp::kEqual>},
      {"escaped", about_value<is_never>},
      {"even", parity<0>},
      {"false", about_value<is_false_itself>},
      {"filter", names_one<find_filter>},
      {"float", about_value<is_float>},
      {"ge", comparison<ast::CompareOp::kGreaterEqual>},
      {"greaterthan", comparison<ast::CompareOp::kGreater>},
      {"gt", comparison<ast::CompareOp::kGreater>},
      {"in", comparison<ast::CompareOp::kIn>},
      {"integer", about_value<is_integer>},
      {"iterable", about_value<is_iterable>},
      {"le", comparison<ast::CompareOp::kLessEqual>},
      {"lessthan", comparison<ast::CompareOp::kLess>},
      {"lower", case_test<false>},
      {"lt", comparison<ast::CompareOp::kLess>},
      {"mapping", about_value<is_mapping>},
      {"ne", comparison<ast::CompareOp::kNotEqual>},
      {"none", about_value<is_none>},
      {"number", about_value<is_number>},
      {"odd", parity<1>},
      {"sameas", same_as},
      {"sequence", about_value<is_sequence>},
      {"string", about_value<is_string>},
      {"test", names_one<find_test>},
      {"true", about_value<is_true_itself>},
      {"undefined", about_value<is_undefined>},
      {"upper", case_test<true>},
  };
  const auto found = kTests.find(name);
  return found == kTests.end() ? nullptr : found->second;
}

Result<bool> call_test(Runtime& runtime, std::string_view name, const Value& input,
                       const Arguments& arguments) {
  const NativeFunction test = find_test(name);
  if (test == nullptr) return Error::unsupported("the test '{}' is not supported", name);
  KVASIR_TRY_VOID(runtime.spend(1));
  KVASIR_TRY(const auto nested, runtime.nest());
  KVASIR_TRY(const Value result, test(runtime, input, arguments));
  return is_true(result);
}

}  // namespace kvasir::text::templates
