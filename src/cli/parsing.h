// Text of arguments and small input files -> values. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace kvasir::cli {

// Decimal digits only. kInvalid showing the text and the allowed range.
Result<uint64_t> parse_whole(std::string_view text, uint64_t min, uint64_t max);
// "1,4,32": at least one number, at most `count_max`; "none" is an empty list.
Result<std::vector<uint64_t>> parse_list(std::string_view text, uint64_t min, uint64_t max,
                                         size_t count_max);
struct NumberRange {
  uint32_t first = 0, last = 0;  // both included, as people write them
};
// "3", or "0-31".
Result<NumberRange> parse_range(std::string_view text, uint32_t max);
// "0-3,7": ascending, each number once.
Result<std::vector<uint32_t>> parse_ranges(std::string_view text, uint32_t max);
// The other way round.
std::string ranges_text(const std::vector<uint32_t>& numbers);

// Decimal or scientific notation. kInvalid also for NaN and infinities.
Result<float> parse_real(std::string_view text, float min, float max);
// "ID:BIAS".
Result<std::pair<int32_t, float>> parse_logit_bias(std::string_view text);
// A number, or "random" for one from the operating system.
Result<uint64_t> parse_seed(std::string_view text);

// "4G", "512M", "64K", "1T" or bytes; the units are powers of 1024. kInvalid for zero.
Result<uint64_t> parse_bytes(std::string_view text);

// "8080" or "HOST:8080"; an IPv6 address in brackets. The host of a bare port is 127.0.0.1.
struct HostAndPort {
  std::string host;
  uint16_t port = 0;
};
Result<HostAndPort> parse_address(std::string_view text);
// "none", "all", "sampled" or "sampled=0.05" -> the share, 0..1.
Result<double> parse_verify(std::string_view text);

// Token ids separated by white space or one comma each, in brackets or not: what `tokenize --json`
// prints.
Result<std::vector<int32_t>> parse_ids(std::string_view text);

// \n, \t and \\ become the characters they name; any other backslash stays.
std::string expand_escapes(std::string_view text);

// For messages: on one line, without control characters and broken UTF-8 ("\n", "\x1b" instead), so
// that the names in a file can neither drive a terminal nor look like lines of ours.
std::string on_one_line(std::string_view text);
// The same in double quotes, with those inside and backslashes escaped.
std::string quoted(std::string_view bytes);

// "17.7 MiB".
std::string bytes_text(uint64_t bytes);
// "1 token", "2 tokens".
std::string counted(uint64_t count, std::string_view noun);

}  // namespace kvasir::cli
