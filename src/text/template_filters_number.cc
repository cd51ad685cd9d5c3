// Filters that make numbers.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "text/template_arguments.h"
#include "text/template_characters.h"
#include "text/template_filter_groups.h"
#include "text/template_operators.h"

namespace kvasir::text::templates {
namespace {

// Without white space around it and the underscores that Python allows between digits; nullopt if
// one stands elsewhere.
std::optional<std::string> number_spelling(std::string_view text) {
  const ByteRange range = stripped(text, Strip::kBoth);
  text = text.substr(range.begin, range.end - range.begin);
  std::string out;
  const auto is_digit_at = [&](size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || !is_digit_at(i - 1) || !is_digit_at(i + 1)) {
      return std::nullopt;
    }
  }
  return out;
}

std::optional<double> parsed_float(std::string_view text) {
  std::optional<std::string> spelling = number_spelling(text);
  if (!spelling) return std::nullopt;
  std::string_view digits = *spelling;
  const bool has_plus = digits.starts_with('+');
  if (has_plus) digits.remove_prefix(1);
  if (digits.empty() || (has_plus && digits.starts_with('-'))) return std::nullopt;
  double number = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (result.ptr != digits.data() + digits.size()) return std::nullopt;
  if (digits.find('(') != std::string_view::npos) return std::nullopt;  // "nan(0)" is C's
  if (result.ec == std::errc::result_out_of_range) {
    // Python gives 0 or infinity there; which one, the exponent's sign says.
    const bool tiny =
        digits.find("e-") != std::string_view::npos || digits.find("E-") != std::string_view::npos;
    number = tiny ? 0.0 : HUGE_VAL;
    return digits.starts_with('-') ? -number : number;
  }
  if (result.ec != std::errc()) return std::nullopt;
  return number;
}

// int(text, base); the error is for numbers of more than 64 bits.
Result<std::optional<int64_t>> parsed_integer(std::string_view text, int64_t base) {
  const std::optional<int64_t> none;
  if (base != 0 && (base < 2 || base > 36)) return none;
  const std::optional<std::string> spelling = number_spelling(text);
  if (!spelling) return none;
  std::string_view digits = *spelling;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.size() > 2 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    const int64_t named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (named != 0 && (base == 0 || base == named)) {
      base = named;
      digits.remove_prefix(2);
    }
  }
  if (base == 0) {
    if (digits.size() > 1 && digits.front() == '0' &&
        digits.find_first_not_of('0') != std::string_view::npos) {
      return none;
    }
    base = 10;
  }
  if (digits.empty() || digits.front() == '-' || digits.front() == '+') return none;
  uint64_t magnitude = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), magnitude,
                                      static_cast<int>(base));
  if (result.ptr != digits.data() + digits.size()) return none;
  if (result.ec != std::errc() || magnitude > static_cast<uint64_t>(INT64_MAX)) {
    return Error::limit("an integer needs more than 64 bits");
  }
  const auto number = static_cast<int64_t>(magnitude);
  return std::optional<int64_t>(negative ? -number : number);
}

Result<Value> truncated(double number) {
  if (!std::isfinite(number)) return Error::invalid("infinity and NaN are no integers");
  if (!(std::fabs(number) < 0x1p63)) return Error::limit("an integer needs more than 64 bits");
  return Value(static_cast<int64_t>(number));
}

Result<Value> to_int(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"default", "base"}));
  KVASIR_TRY(const int64_t base, bound.integer(1, 10));
  if (const double* floating = input.floating()) {
    if (std::isnan(*floating)) return bound.find(0) != nullptr ? bound.at(0) : Value(int64_t{0});
    return truncated(*floating);
  }
  if (const auto integer = input.integer()) return Value(*integer);
  if (input.is_undefined()) return undefined_error(input);
  if (const MarkedText* text = input.string()) {
    KVASIR_TRY_VOID(runtime.spend_bytes(text->size()));
    KVASIR_TRY(const auto integer, parsed_integer(text->text(), base));
    if (integer) return Value(*integer);
    const auto floating = parsed_float(text->text());
    if (floating && !std::isnan(*floating)) return truncated(*floating);
  }
  return bound.find(0) != nullptr ? bound.at(0) : Value(int64_t{0});
}

Result<Value> to_float(Runtime& runtime, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"default"}));
  if (input.floating() != nullptr) return input;
  if (const auto integer = input.integer()) return Value(static_cast<double>(*integer));
  if (input.is_undefined()) return undefined_error(input);
  if (const MarkedText* text = input.string()) {
    KVASIR_TRY_VOID(runtime.spend_bytes(text->size()));
    if (const auto number = parsed_float(text->text())) return Value(*number);
  }
  return bound.find(0) != nullptr ? bound.at(0) : Value(0.0);
}

Result<Value> absolute(Runtime&, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {}));
  if (const double* floating = input.floating()) return Value(std::fabs(*floating));
  const auto integer = input.integer();
  if (!integer) return wrong_type("a number", input);
  return *integer < 0 ? negated(Value(*integer), ast::UnaryOp::kMinus) : Value(*integer);
}

// To a multiple of 10^digits, half to even.
int64_t rounded_integer(int64_t number, int64_t digits) {
  if (digits > 18) return 0;
  int64_t unit = 1;
  for (int64_t i = 0; i < digits; ++i) unit *= 10;
  const int64_t rest = ((number % unit) + unit) % unit;
  const int64_t below = (number - rest) / unit;
  const bool up = rest > unit - rest || (rest == unit - rest && (below & 1) != 0);
  return (below + (up ? 1 : 0)) * unit;
}

Result<Value> round(Runtime&, const Value& input, const Arguments& arguments) {
  KVASIR_TRY(const auto bound, BoundArguments::bind(arguments, {"precision", "method"}));
  KVASIR_TRY(const int64_t precision, bound.integer(0, 0));
  KVASIR_TRY(const MarkedText method, bound.text(1, "common"));
  if (!input.is_number()) return wrong_type("a number", input);
  if (precision > 300 || precision < -300) return Error::limit("round: too many digits");
  if (method.text() == "common") {
    if (const auto integer = input.integer()) {
      return precision >= 0 ? Value(*integer) : Value(rounded_integer(*integer, -precision));
    }
    const double number = *input.floating();
    if (!std::isfinite(number)) return Value(number);
    if (precision < 0) {
      const double unit = std::pow(10.0, static_cast<double>(-precision));
      return Value(std::nearbyint(number / unit) * unit);
    }
    // The decimal digits of the exact value, rounded half to even.
    const std::string digits = fmt::format("{:.{}f}", number, precision);
    double rounded = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), rounded);
    return Value(rounded);
  }
  if (method.text() != "ceil" && method.text() != "floor") {
    return Error::invalid("round: the method is common, ceil or floor");
  }
  const double number =
      input.floating() != nullptr ? *input.floating() : static_cast<double>(*input.integer());
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = number * unit;
  if (!std::isfinite(scaled)) return Error::invalid("round: a number is out of range");
  return Value((method.text() == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

constexpr NamedFilter kFilters[] = {
    {"abs", absolute},
    {"float", to_float},
    {"int", to_int},
    {"round", round},
};

}  // namespace

std::span<const NamedFilter> number_filters() {
  return kFilters;
}

}  // namespace kvasir::text::templates
