#include "base/log.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>

namespace kvasir {
namespace {

std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "";
}

// gmtime is not thread-safe everywhere this runs.
std::string time_text(int64_t unix_ms) {
  using namespace std::chrono;
  const sys_time<milliseconds> time{milliseconds(unix_ms)};
  const auto day = floor<days>(time);
  const year_month_day date{day};
  const auto rest = (time - day).count();
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     rest / 3'600'000, rest / 60'000 % 60, rest / 1000 % 60, rest % 1000);
}

// Bytes of the UTF-8 character that `text` begins with; 0: it is none. Text is not empty.
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t bytes = byte(0) < 0x80   ? 1
                       : byte(0) < 0xC2 ? 0
                       : byte(0) < 0xE0 ? 2
                       : byte(0) < 0xF0 ? 3
                       : byte(0) < 0xF5 ? 4
                                        : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if (bytes < 3) return bytes;
  // Forms that are too long, surrogates, and numbers beyond Unicode.
  const unsigned lead = byte(0), second = byte(1);
  const bool wrong = (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
                     (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F);
  return wrong ? 0 : bytes;
}

// The inside of a JSON string; in text lines, too.
std::string escaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t bytes = character_bytes(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (bytes == 0)
      result += "\\ufffd";
    else if (first == '"' || first == '\\')
      result += fmt::format("\\{}", text.front());
    else if (first == '\n')
      result += "\\n";
    else if (first < 0x20 || first == 0x7F)
      result += fmt::format("\\u{:04x}", first);
    else if (bytes == 2 && first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0)
      result += fmt::format("\\u{:04x}", static_cast<unsigned char>(text[1]));  // C1 controls
    else
      result += text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return result;
}

std::string json_text(std::string_view text) {
  return '"' + escaped(text) + '"';
}

bool is_plain_word(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text)
    if (c <= ' ' || c == '"' || c == '\\' || c == '=' || c == 0x7F) return false;  // also non-ASCII
  return true;
}

struct ValueText {
  LogStyle style;
  std::string operator()(const std::string& text) const {
    return style == LogStyle::kText && is_plain_word(text) ? text : json_text(text);
  }
  std::string operator()(int64_t number) const { return fmt::format("{}", number); }
  std::string operator()(uint64_t number) const { return fmt::format("{}", number); }
  std::string operator()(bool yes) const { return yes ? "true" : "false"; }
  std::string operator()(double number) const {
    if (!std::isfinite(number)) return style == LogStyle::kJson ? "null" : "nan";
    return fmt::format("{}", number);
  }
};

int64_t system_unix_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string log_line(LogStyle style, int64_t time_unix_ms, LogLevel level, std::string_view kind,
                     std::string_view message, const std::vector<LogField>& fields) {
  const std::string time = time_text(time_unix_ms);
  if (style == LogStyle::kText) {
    std::string line = fmt::format("{} {} {}: {}", time, level_name(level), kind, escaped(message));
    for (const LogField& field : fields)
      line += fmt::format(" {}={}", field.name, std::visit(ValueText{style}, field.value));
    return line;
  }
  std::string line = fmt::format(R"({{"time":"{}","level":"{}","kind":{},"message":{})", time,
                                 level_name(level), json_text(kind), json_text(message));
  for (const LogField& field : fields)
    line += fmt::format(",{}:{}", json_text(field.name), std::visit(ValueText{style}, field.value));
  return line + "}";
}

Log::Log(LogOptions options) : options_(std::move(options)) {
  if (!options_.clock_unix_ms) options_.clock_unix_ms = system_unix_ms;
  // One call: lines of several processes do not mix.
  if (!options_.sink)
    options_.sink = [](std::string_view line) { std::fwrite(line.data(), 1, line.size(), stderr); };
}

void Log::write(LogLevel level, std::string_view kind, std::string_view message, Fields fields) {
  if (level < options_.level_min) return;
  const int64_t now_ms = options_.clock_unix_ms();
  const std::lock_guard lock(mutex_);
  auto found = windows_.find(kind);
  if (found == windows_.end()) {
    const std::string_view counted = windows_.size() < kKindsMax ? kind : "others";
    found = windows_.emplace(counted, Window{now_ms, 0, 0}).first;
  }
  Window& window = found->second;
  // A clock that was set back begins a window, too.
  if (now_ms - window.begin_ms >= kWindowMs || now_ms < window.begin_ms) {
    window.begin_ms = now_ms;
    window.lines = 0;
  }
  if (window.lines >= kLinesPerWindow) {
    ++window.left_out;
    return;
  }
  ++window.lines;
  if (window.left_out > 0) fields.emplace_back("left_out", window.left_out);
  window.left_out = 0;
  options_.sink(log_line(options_.style, now_ms, level, kind, message, fields) + "\n");
}

}  // namespace kvasir
