// Follows JSON byte by byte: is what came so far the beginning of an object or array, its end, or
// neither? Keeps no values.
#pragma once

#include <cstdint>
#include <vector>

#include "api/request.h"

namespace kvasir::api {

// One thread.
class JsonScanner {
 public:
  enum class Step : uint8_t {
    kMore,     // fine so far
    kDone,     // the byte just fed closed the value
    kInvalid,  // no JSON begins like that; nothing may be fed any more
  };
  // The first byte that is not white space has to open an object or array.
  Step feed(char c);

 private:
  enum class Expect : uint8_t {
    kTop,
    kValue,
    kFirstKeyOrEnd,
    kKey,
    kColon,
    kFirstElementOrEnd,
    kCommaOrEnd,
    kString,
    kEscape,
    kHex,
    kLiteral,
    kNumberMinus,     // a digit has to follow
    kNumberZero,      // 0: no digit may follow
    kNumberInteger,   // digits
    kNumberPoint,     // a digit has to follow
    kNumberFraction,  // digits
    kNumberE,         // a sign or digit has to follow
    kNumberSign,      // a digit has to follow
    kNumberExponent,  // digits
  };
  enum class Nest : uint8_t { kObject, kArray };

  Step begin_value(char c);
  Step open(Nest nest);
  Step close(Nest nest);
  Step in_string(char c);
  Step in_number(char c);
  Step go(Expect next) {
    expect_ = next;
    return Step::kMore;
  }

  Expect expect_ = Expect::kTop;
  std::vector<Nest> nests_;  // innermost last, at most kJsonDepthMax
  bool string_is_key_ = false;
  uint8_t hex_left_ = 0;
  const char* literal_left_ = nullptr;
};

}  // namespace kvasir::api
