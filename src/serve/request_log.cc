#include "serve/request_log.h"

#include <fmt/format.h>

#include <ctime>

#include "api/json_writer.h"

namespace kvasir::serve {
namespace {

std::string time_text(int64_t time_unix_ms) {
  const std::time_t seconds = time_unix_ms / 1000;
  std::tm at{};
  gmtime_r(&seconds, &at);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", at.tm_year + 1900, at.tm_mon + 1,
                     at.tm_mday, at.tm_hour, at.tm_min, at.tm_sec, time_unix_ms % 1000);
}

// Methods are a stranger's words, and a line is a line.
std::string word(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 32)) out += c > ' ' && c < 0x7F ? c : '?';
  return out.empty() ? "-" : out;
}

}  // namespace

std::string log_line(const RequestRecord& record, LogFormat format, int64_t time_unix_ms) {
  const bool generated = record.prompt_tokens != 0;
  if (format == LogFormat::kText) {
    std::string line =
        fmt::format("{} {} {} {} {} {} {:.3f}s", time_text(time_unix_ms), record.id, record.client,
                    word(record.method), record.route, record.status, record.seconds);
    if (!record.key.empty()) line += fmt::format(" key={}", word(record.key));
    if (generated) {
      line += fmt::format(" prompt={} cached={} generated={} first={:.3f}s finish={}",
                          record.prompt_tokens, record.cached_tokens, record.generated_tokens,
                          record.first_token_seconds, record.finish);
    }
    if (!record.error.empty()) line += fmt::format(" error={}", record.error);
    return line;
  }
  api::JsonWriter out;
  out.begin_object();
  out.member("time", time_text(time_unix_ms));
  out.member("event", "request");
  out.member("id", record.id);
  out.member("client", record.client);
  out.member("method", word(record.method));
  out.member("route", record.route);
  out.member("status", record.status);
  out.member("seconds", record.seconds);
  if (!record.key.empty()) out.member("key", record.key);
  if (generated) {
    out.member("prompt_tokens", record.prompt_tokens);
    out.member("cached_tokens", record.cached_tokens);
    out.member("generated_tokens", record.generated_tokens);
    out.member("first_token_seconds", record.first_token_seconds);
    out.member("finish", record.finish);
  }
  if (!record.error.empty()) out.member("error", record.error);
  out.end_object();
  return out.take();
}

}  // namespace kvasir::serve
