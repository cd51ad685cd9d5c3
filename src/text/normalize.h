// Unicode normalisation form C, in O(n log n) whatever the text.
#pragma once

#include <string>
#include <string_view>

namespace kvasir::text {

// True only if `text` is in form C for a reason that is cheap to see; most text is.
bool is_certainly_nfc(std::string_view text);

// `text` is valid UTF-8.
std::string to_nfc(std::string_view text);

}  // namespace kvasir::text
