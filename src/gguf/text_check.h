// Text out of a file: is it text at all, and how to show it to a person.
#pragma once

#include <string>
#include <string_view>

namespace kvasir::gguf {

// Well-formed UTF-8 (no overlong forms, no surrogates, nothing above U+10FFFF) without NUL.
bool is_text(std::string_view bytes);

// For messages: everything but printable ASCII as \xNN, and at most 80 characters, so that a
// hostile name can neither drive a terminal nor fill a log.
std::string printable(std::string_view bytes);

}  // namespace kvasir::gguf
