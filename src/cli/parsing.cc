#include "cli/parsing.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>

#include "text/utf8.h"

namespace kvasir::cli {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

std::string hex_escapes(std::string_view bytes) {
  std::string escapes;
  for (char c : bytes) escapes += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return escapes;
}

// Characters that can be seen stay, with a backslash in front if they are among `special`.
std::string escaped(std::string_view bytes, std::string_view special) {
  std::string shown;
  while (!bytes.empty()) {
    const text::Utf8Prefix next = text::read_utf8(bytes);
    const bool character = next.kind == text::Utf8Prefix::Kind::kCharacter;
    if (character && next.code == '\n')
      shown += "\\n";
    else if (special.find(bytes[0]) != std::string_view::npos)
      (shown += '\\') += bytes[0];
    // C1 controls (0x80 to 0x9f) drive terminals too.
    else if (character && next.code >= 0x20 && (next.code < 0x7f || next.code > 0x9f))
      shown += bytes.substr(0, next.bytes);
    else
      shown += hex_escapes(bytes.substr(0, next.bytes));
    bytes.remove_prefix(next.bytes);
  }
  return shown;
}

}  // namespace

Result<uint64_t> parse_whole(std::string_view text, uint64_t min, uint64_t max) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < min || value > max)
    return Error::invalid("'{}' is not a whole number from {} to {}", text, min, max);
  return value;
}

Result<std::vector<uint64_t>> parse_list(std::string_view text, uint64_t min, uint64_t max,
                                         size_t count_max) {
  std::vector<uint64_t> values;
  if (text == "none") return values;
  for (;;) {
    const size_t comma = std::min(text.find(','), text.size());
    KVASIR_TRY(const uint64_t value, parse_whole(text.substr(0, comma), min, max));
    if (values.size() == count_max) return Error::invalid("more than {} numbers", count_max);
    values.push_back(value);
    if (comma == text.size()) return values;
    text.remove_prefix(comma + 1);
  }
}

Result<NumberRange> parse_range(std::string_view text, uint32_t max) {
  const size_t dash = text.find('-');
  KVASIR_TRY(const uint64_t first, parse_whole(text.substr(0, dash), 0, max));
  uint64_t last = first;
  if (dash != std::string_view::npos) {
    KVASIR_TRY(last, parse_whole(text.substr(dash + 1), 0, max));
  }
  if (last < first) return Error::invalid("'{}' ends before it begins", text);
  return NumberRange{static_cast<uint32_t>(first), static_cast<uint32_t>(last)};
}

Result<std::vector<uint32_t>> parse_ranges(std::string_view text, uint32_t max) {
  std::vector<uint32_t> numbers;
  for (;;) {
    const size_t comma = std::min(text.find(','), text.size());
    KVASIR_TRY(const NumberRange range, parse_range(text.substr(0, comma), max));
    if (!numbers.empty() && range.first <= numbers.back())
      return Error::invalid("{} comes after {}; numbers must ascend", range.first, numbers.back());
    for (uint32_t number = range.first; number <= range.last; ++number) numbers.push_back(number);
    if (comma == text.size()) return numbers;
    text.remove_prefix(comma + 1);
  }
}

std::string ranges_text(const std::vector<uint32_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (end - i > 1) text += fmt::format("-{}", numbers[end - 1]);
    i = end;
  }
  return text;
}

Result<float> parse_real(std::string_view text, float min, float max) {
  float value = 0;
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  // The comparison is false for NaN.
  if (error != std::errc() || stop != end || !(value >= min && value <= max))
    return Error::invalid("'{}' is not a number from {} to {}", text, min, max);
  return value;
}

Result<std::pair<int32_t, float>> parse_logit_bias(std::string_view text) {
  size_t colon = text.find(':');
  if (colon == std::string_view::npos)
    return Error::invalid("'{}' is not of the form ID:BIAS, as in 42:-5.5", text);
  KVASIR_TRY(uint64_t id,
             parse_whole(text.substr(0, colon), 0, std::numeric_limits<int32_t>::max()));
  KVASIR_TRY(float bias, parse_real(text.substr(colon + 1), -1000, 1000));
  return std::pair(static_cast<int32_t>(id), bias);
}

Result<uint64_t> parse_seed(std::string_view text) {
  if (text == "random") {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }
  Result<uint64_t> seed = parse_whole(text, 0, std::numeric_limits<uint64_t>::max());
  if (!seed) return Error::invalid("{}, nor 'random'", seed.error().message);
  return seed;
}

Result<uint64_t> parse_bytes(std::string_view text) {
  constexpr std::string_view kUnits = "KMGT";
  uint64_t unit = 1;
  std::string_view digits = text;
  if (!text.empty()) {
    const size_t at =
        kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(text.back()))));
    if (at != std::string_view::npos) {
      unit <<= 10 * (at + 1);
      digits.remove_suffix(1);
    }
  }
  auto count = parse_whole(digits, 1, std::numeric_limits<uint64_t>::max() / unit);
  if (!count) return Error::invalid("'{}' is not a size such as 512M or 4G", text);
  return *count * unit;
}

Result<HostAndPort> parse_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  HostAndPort address;
  std::string_view port = text;
  address.host = "127.0.0.1";
  if (colon != std::string_view::npos) {
    std::string_view host = text.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']')
      host = host.substr(1, host.size() - 2);
    else if (host.find(':') != std::string_view::npos)
      return Error::invalid("'{}': an IPv6 address goes in brackets, [::1]:8080", text);
    if (host.empty()) return Error::invalid("'{}' names no host", text);
    address.host = std::string(host);
    port = text.substr(colon + 1);
  }
  KVASIR_TRY(const uint64_t number, parse_whole(port, 0, UINT16_MAX));
  address.port = static_cast<uint16_t>(number);
  return address;
}

Result<double> parse_verify(std::string_view text) {
  constexpr double kShareDefault = 0.02;
  constexpr std::string_view kSampled = "sampled=";
  if (text == "none") return 0.0;
  if (text == "all") return 1.0;
  if (text == "sampled") return kShareDefault;
  if (!text.starts_with(kSampled))
    return Error::invalid("'{}' is none of none|sampled[=SHARE]|all", text);
  KVASIR_TRY(const float share, parse_real(text.substr(kSampled.size()), 0, 1));
  return static_cast<double>(share);
}

Result<std::vector<int32_t>> parse_ids(std::string_view text) {
  std::vector<int32_t> ids;
  auto skip_space = [&] {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  };
  skip_space();
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    text = text.substr(1, text.size() - 2);
    skip_space();
  }
  for (bool more = !text.empty(); more;) {
    size_t length = 0;
    while (length < text.size() && text[length] != ',' && !is_space(text[length])) ++length;
    Result<uint64_t> id =
        parse_whole(text.substr(0, length), 0, std::numeric_limits<int32_t>::max());
    if (!id) {
      return Error::invalid("token id number {}: '{}' is not a token id", ids.size() + 1,
                            on_one_line(text.substr(0, std::min<size_t>(length, 40))));
    }
    ids.push_back(static_cast<int32_t>(*id));
    text.remove_prefix(length);
    skip_space();
    more = !text.empty();
    if (more && text.front() == ',') {  // an id must follow
      text.remove_prefix(1);
      skip_space();
    }
  }
  return ids;
}

std::string expand_escapes(std::string_view text) {
  std::string expanded;
  for (size_t i = 0; i < text.size(); ++i) {
    char next = text[i] == '\\' && i + 1 < text.size() ? text[i + 1] : '\0';
    if (next == 'n' || next == 't' || next == '\\') {
      expanded += next == 'n' ? '\n' : next == 't' ? '\t' : '\\';
      ++i;
    } else {
      expanded += text[i];
    }
  }
  return expanded;
}

std::string on_one_line(std::string_view text) {
  return escaped(text, "");
}

std::string quoted(std::string_view bytes) {
  return '"' + escaped(bytes, "\"\\") + '"';
}

std::string bytes_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string counted(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace kvasir::cli
