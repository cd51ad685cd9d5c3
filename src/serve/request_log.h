// One line per request, for people or for machines. Never a word of a prompt or an answer, nor a
// key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvasir::serve {

enum class LogFormat : uint8_t { kText, kJson };

struct RequestRecord {
  std::string id;
  std::string method;
  std::string_view route;  // of the table, or "other"
  std::string client;      // address
  std::string key;         // its name; empty without keys
  int status = 0;          // 499: the client went away first
  double seconds = 0;
  std::string_view error;  // code of docs/api.md; empty: none
  // Of generations:
  uint64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  double first_token_seconds = 0;
  std::string_view finish;
};

// Without a line end.
std::string log_line(const RequestRecord& record, LogFormat format, int64_t time_unix_ms);

}  // namespace kvasir::serve
