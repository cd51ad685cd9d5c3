#include "api/json_scanner.h"

namespace kvasir::api {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

JsonScanner::Step JsonScanner::open(Nest nest) {
  if (nests_.size() == kJsonDepthMax) return Step::kInvalid;
  nests_.push_back(nest);
  return go(nest == Nest::kObject ? Expect::kFirstKeyOrEnd : Expect::kFirstElementOrEnd);
}

JsonScanner::Step JsonScanner::close(Nest nest) {
  if (nests_.empty() || nests_.back() != nest) return Step::kInvalid;
  nests_.pop_back();
  expect_ = Expect::kCommaOrEnd;
  return nests_.empty() ? Step::kDone : Step::kMore;
}

JsonScanner::Step JsonScanner::begin_value(char c) {
  switch (c) {
    case '{':
      return open(Nest::kObject);
    case '[':
      return open(Nest::kArray);
    case '"':
      string_is_key_ = false;
      return go(Expect::kString);
    case 't':
      literal_left_ = "rue";
      return go(Expect::kLiteral);
    case 'f':
      literal_left_ = "alse";
      return go(Expect::kLiteral);
    case 'n':
      literal_left_ = "ull";
      return go(Expect::kLiteral);
    case '-':
      return go(Expect::kNumberMinus);
    case '0':
      return go(Expect::kNumberZero);
    default:
      return is_digit(c) ? go(Expect::kNumberInteger) : Step::kInvalid;
  }
}

JsonScanner::Step JsonScanner::in_string(char c) {
  switch (expect_) {
    case Expect::kEscape:
      if (c == 'u') {
        hex_left_ = 4;
        return go(Expect::kHex);
      }
      for (const char known : {'"', '\\', '/', 'b', 'f', 'n', 'r', 't'})
        if (c == known) return go(Expect::kString);
      return Step::kInvalid;
    case Expect::kHex:
      if (!is_hex(c)) return Step::kInvalid;
      return go(--hex_left_ == 0 ? Expect::kString : Expect::kHex);
    default:
      if (c == '\\') return go(Expect::kEscape);
      if (c == '"') return go(string_is_key_ ? Expect::kColon : Expect::kCommaOrEnd);
      return static_cast<unsigned char>(c) < 0x20 ? Step::kInvalid : Step::kMore;
  }
}

JsonScanner::Step JsonScanner::in_number(char c) {
  const bool digit = is_digit(c);
  switch (expect_) {
    case Expect::kNumberMinus:
      if (!digit) return Step::kInvalid;
      return go(c == '0' ? Expect::kNumberZero : Expect::kNumberInteger);
    case Expect::kNumberPoint:
      return digit ? go(Expect::kNumberFraction) : Step::kInvalid;
    case Expect::kNumberE:
      if (c == '+' || c == '-') return go(Expect::kNumberSign);
      [[fallthrough]];
    case Expect::kNumberSign:
      return digit ? go(Expect::kNumberExponent) : Step::kInvalid;
    default:
      break;
  }
  // A number that may end here.
  const bool whole = expect_ == Expect::kNumberZero || expect_ == Expect::kNumberInteger;
  if (digit) return expect_ == Expect::kNumberZero ? Step::kInvalid : Step::kMore;
  if (c == '.' && whole) return go(Expect::kNumberPoint);
  if ((c == 'e' || c == 'E') && expect_ != Expect::kNumberExponent) return go(Expect::kNumberE);
  expect_ = Expect::kCommaOrEnd;
  return feed(c);
}

JsonScanner::Step JsonScanner::feed(char c) {
  switch (expect_) {
    case Expect::kString:
    case Expect::kEscape:
    case Expect::kHex:
      return in_string(c);
    case Expect::kLiteral:
      if (c != *literal_left_) return Step::kInvalid;
      return *++literal_left_ == '\0' ? go(Expect::kCommaOrEnd) : Step::kMore;
    case Expect::kNumberMinus:
    case Expect::kNumberZero:
    case Expect::kNumberInteger:
    case Expect::kNumberPoint:
    case Expect::kNumberFraction:
    case Expect::kNumberE:
    case Expect::kNumberSign:
    case Expect::kNumberExponent:
      return in_number(c);
    default:
      break;
  }
  if (is_space(c)) return Step::kMore;
  switch (expect_) {
    case Expect::kTop:
      return c == '{' || c == '[' ? begin_value(c) : Step::kInvalid;
    case Expect::kFirstElementOrEnd:
      return c == ']' ? close(Nest::kArray) : begin_value(c);
    case Expect::kFirstKeyOrEnd:
      if (c == '}') return close(Nest::kObject);
      [[fallthrough]];
    case Expect::kKey:
      string_is_key_ = true;
      return c == '"' ? go(Expect::kString) : Step::kInvalid;
    case Expect::kColon:
      return c == ':' ? go(Expect::kValue) : Step::kInvalid;
    case Expect::kCommaOrEnd:
      if (nests_.empty()) return Step::kInvalid;
      if (c == ',') return go(nests_.back() == Nest::kObject ? Expect::kKey : Expect::kValue);
      if (c == '}') return close(Nest::kObject);
      return c == ']' ? close(Nest::kArray) : Step::kInvalid;
    default:
      return begin_value(c);
  }
}

}  // namespace kvasir::api
