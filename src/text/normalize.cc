#include "text/normalize.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "text/utf8.h"

namespace kvasir::text {
namespace {

constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

int combining_class(utf8proc_int32_t code) {
  return utf8proc_get_property(code)->combining_class;
}

std::vector<utf8proc_int32_t> decompose(std::string_view text) {
  std::vector<utf8proc_int32_t> codes;
  codes.reserve(text.size());
  while (!text.empty()) {
    const Utf8Prefix prefix = read_utf8(text);
    KVASIR_CHECK(prefix.kind == Utf8Prefix::Kind::kCharacter);
    text.remove_prefix(prefix.bytes);
    std::array<utf8proc_int32_t, 8> parts;  // no canonical decomposition has more than 4
    int boundary_class = 0;                 // not used without UTF8PROC_CHARBOUND
    const utf8proc_ssize_t n =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(prefix.code), parts.data(),
                                parts.size(), kOptions, &boundary_class);
    KVASIR_CHECK(n >= 1 && n <= static_cast<utf8proc_ssize_t>(parts.size()));
    codes.insert(codes.end(), parts.begin(), parts.begin() + n);
  }
  return codes;
}

// Canonical order: each run of combining marks sorted by combining class, stable. utf8proc's own
// routine is an insertion sort, quadratic on a megabyte of marks.
void order_marks(std::vector<utf8proc_int32_t>& codes) {
  const auto end = codes.end();
  for (auto begin = codes.begin(); begin != end;) {
    if (combining_class(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto run_end =
        std::find_if(begin, end, [](auto code) { return combining_class(code) == 0; });
    std::stable_sort(begin, run_end,
                     [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = run_end;
  }
}

}  // namespace

bool is_certainly_nfc(std::string_view text) {
  // No character below U+0300 (lead byte 0xCC) combines with or decomposes into anything that form
  // C would change.
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<uint8_t>(c) >= 0xCC; });
}

std::string to_nfc(std::string_view text) {
  std::vector<utf8proc_int32_t> codes = decompose(text);
  order_marks(codes);
  const utf8proc_ssize_t n =
      utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()), kOptions);
  KVASIR_CHECK(n >= 0);
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < n; ++i) {
    append_utf8(out, static_cast<char32_t>(codes[static_cast<size_t>(i)]));
  }
  return out;
}

}  // namespace kvasir::text
