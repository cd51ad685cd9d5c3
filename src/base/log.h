// Structured log lines on standard error: a level, a kind that programs can look for, a sentence
// for people, and named values. Text for people or JSON for machines, one line each.
//
//   log.warning("worker_refused", "a worker was refused", {{"node", id}, {"reason", "no token"}});
//   2026-11-30T07:10:27.123Z warning worker_refused: a worker was refused node=3f9a reason="no
//   token"
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kvasir {

// A token, a key. Prints as ***, wherever it is printed; only reveal() gives it away.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string text) : text_(std::move(text)) {}
  const std::string& reveal() const { return text_; }
  bool empty() const { return text_.empty(); }

 private:
  std::string text_;
};
inline std::string_view format_as(const Secret&) {
  return "***";
}

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };
enum class LogStyle : uint8_t { kText, kJson };

struct LogField {
  using Value = std::variant<std::string, int64_t, uint64_t, double, bool>;

  std::string_view name;  // snake_case, with the unit last
  Value value;

  LogField(std::string_view field, std::string text) : name(field), value(std::move(text)) {}
  LogField(std::string_view field, std::string_view text) : name(field), value(std::string(text)) {}
  LogField(std::string_view field, const char* text) : name(field), value(std::string(text)) {}
  LogField(std::string_view field, const Secret&) : name(field), value(std::string("***")) {}
  LogField(std::string_view field, double number) : name(field), value(number) {}
  LogField(std::string_view field, bool yes) : name(field), value(yes) {}
  LogField(std::string_view field, int32_t number) : name(field), value(int64_t{number}) {}
  LogField(std::string_view field, int64_t number) : name(field), value(number) {}
  LogField(std::string_view field, uint32_t number) : name(field), value(uint64_t{number}) {}
  LogField(std::string_view field, uint64_t number) : name(field), value(number) {}
};

// Without a line end. Control characters and broken UTF-8 are escaped: what strangers send can
// neither drive a terminal nor look like a line of ours.
std::string log_line(LogStyle style, int64_t time_unix_ms, LogLevel level, std::string_view kind,
                     std::string_view message, const std::vector<LogField>& fields);

struct LogOptions {
  LogStyle style = LogStyle::kText;
  LogLevel level_min = LogLevel::kInfo;
  std::function<void(std::string_view)> sink;  // whole lines; none: standard error
  std::function<int64_t()> clock_unix_ms;      // none: the system's
};

// Thread-safe. At most kLinesPerWindow lines of a kind in kWindowMs: a peer that misbehaves a
// thousand times a second fills no disk. The next line of the kind says how many were left out.
class Log {
 public:
  static constexpr uint32_t kLinesPerWindow = 20;
  static constexpr int64_t kWindowMs = 10'000;
  // Kinds are words of the source, but nothing here grows without a bound.
  static constexpr size_t kKindsMax = 256;

  explicit Log(LogOptions options);

  using Fields = std::vector<LogField>;
  void write(LogLevel level, std::string_view kind, std::string_view message, Fields fields = {});
  void debug(std::string_view kind, std::string_view message, Fields fields = {}) {
    write(LogLevel::kDebug, kind, message, std::move(fields));
  }
  void info(std::string_view kind, std::string_view message, Fields fields = {}) {
    write(LogLevel::kInfo, kind, message, std::move(fields));
  }
  void warning(std::string_view kind, std::string_view message, Fields fields = {}) {
    write(LogLevel::kWarning, kind, message, std::move(fields));
  }
  void error(std::string_view kind, std::string_view message, Fields fields = {}) {
    write(LogLevel::kError, kind, message, std::move(fields));
  }

 private:
  struct Window {
    int64_t begin_ms = 0;
    uint32_t lines = 0;
    uint64_t left_out = 0;
  };

  LogOptions options_;
  std::mutex mutex_;
  std::map<std::string, Window, std::less<>> windows_;  // guarded by mutex_
};

}  // namespace kvasir
