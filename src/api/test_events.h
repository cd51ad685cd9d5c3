// Streams taken apart again, as clients do it.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer.h"

namespace kvasir::api {

struct SseEvent {
  std::string name;  // empty if none was given
  std::string data;
};

// By the rules of server-sent events; comments are skipped.
inline std::vector<SseEvent> read_events(std::string_view stream) {
  std::vector<SseEvent> events;
  SseEvent open;
  while (!stream.empty()) {
    const size_t end = stream.find('\n');
    EXPECT_NE(end, std::string_view::npos) << "a line without an end";
    const std::string_view line = stream.substr(0, end);
    stream.remove_prefix(std::min(stream.size(), line.size() + 1));
    if (line.empty()) {
      if (!open.data.empty()) events.push_back(open);
      open = {};
    } else if (line.starts_with("event: ")) {
      open.name = line.substr(7);
    } else if (line.starts_with("data: ")) {
      open.data += line.substr(6);
    } else {
      EXPECT_TRUE(line.starts_with(":")) << line;
    }
  }
  return events;
}

inline std::string run(StreamEncoder& stream, const std::vector<AnswerEvent>& events,
                       const Usage& usage, const Details* details = nullptr) {
  std::string bytes = stream.begin(usage);
  for (const AnswerEvent& event : events) bytes += stream.encode(event);
  return bytes + stream.end(usage, details);
}

inline std::vector<Choice> collect(const std::vector<AnswerEvent>& events, uint32_t choices) {
  AnswerCollector collector(choices);
  for (const AnswerEvent& event : events) collector.add(event);
  return collector.choices();
}

// Text with quotes, control characters and characters of one to four bytes.
inline std::string random_text(std::mt19937_64& random, size_t characters) {
  static const std::vector<std::string> kCharacters = {"a",
                                                       "Z",
                                                       " ",
                                                       "\n",
                                                       "\t",
                                                       "\"",
                                                       "\\",
                                                       "\x01",
                                                       "\x7F",
                                                       "\xC3\xA4",
                                                       "\xE2\x82\xAC",
                                                       "\xE6\x9C\xAC",
                                                       "\xF0\x9F\x98\x80",
                                                       "<",
                                                       "/",
                                                       "{",
                                                       "}",
                                                       std::string(1, '\0')};
  std::string text;
  for (size_t i = 0; i < characters; ++i) text += kCharacters[random() % kCharacters.size()];
  return text;
}

// Any interleaving of choices, each a well-formed sequence. Reasoning and tools only where a
// dialect has them.
enum class With : uint8_t { kTextOnly, kEverything };
inline std::vector<AnswerEvent> random_answer(std::mt19937_64& random, uint32_t choices,
                                              With with) {
  std::vector<std::vector<Happening>> each(choices);
  for (uint32_t i = 0; i < choices; ++i) {
    uint32_t calls = 0;
    for (size_t n = random() % 8; n > 0; --n) {
      const uint64_t kind = with == With::kEverything ? random() % 4 : 0;
      if (kind <= 1) {
        each[i].push_back(TextDelta{random_text(random, random() % 5), {}});
      } else if (kind == 2) {
        each[i].push_back(ReasoningDelta{random_text(random, random() % 5)});
      } else {
        each[i].push_back(ToolCallStart{"call_" + std::to_string(calls++), "f"});
        each[i].push_back(ToolCallArguments{"{\"a\":"});
        each[i].push_back(ToolCallArguments{nlohmann::json(random_text(random, 3)).dump() + "}"});
        each[i].push_back(ToolCallEnd{});
      }
    }
    const auto reason = calls > 0           ? FinishReason::kToolCalls
                        : random() % 3 == 0 ? FinishReason::kLength
                                            : FinishReason::kStop;
    each[i].push_back(Finished{reason, {}});
  }
  std::vector<AnswerEvent> events;
  std::vector<size_t> at(choices, 0);
  for (;;) {
    std::vector<uint32_t> open;
    for (uint32_t i = 0; i < choices; ++i)
      if (at[i] < each[i].size()) open.push_back(i);
    if (open.empty()) return events;
    const uint32_t i = open[random() % open.size()];
    events.push_back({i, each[i][at[i]++]});
  }
}

}  // namespace kvasir::api
