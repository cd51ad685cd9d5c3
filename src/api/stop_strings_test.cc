#include "api/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

namespace kvasir::api {
namespace {

struct Cut {
  std::string text;
  std::string stop;
  bool operator==(const Cut&) const = default;
};

// The definition: the first position where some stop ends.
Cut expected(std::string_view text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::string best;
    for (const std::string& stop : stops)
      if (text.substr(0, end).ends_with(stop) && stop.size() > best.size()) best = stop;
    if (!best.empty()) return {std::string(text.substr(0, end - best.size())), best};
  }
  return {std::string(text), ""};
}

TEST(StopStrings, HoldBackWhatMayBecomeOne) {
  StopStrings stops({"\n\nUser:"});
  EXPECT_EQ(stops.feed("Hi\n").text, "Hi");
  EXPECT_EQ(stops.feed("\nUs").text, "");
  EXPECT_EQ(stops.feed("ual").text, "\n\nUsual");
  const auto released = stops.feed("!\n\nUser: x");
  EXPECT_EQ(released.text, "!");
  EXPECT_EQ(released.stop, "\n\nUser:");
}

TEST(StopStrings, DoNotDependOnHowTheTextIsCut) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20'000; ++round) {
    const auto word = [&](size_t bytes_max) {
      std::string text;
      for (size_t n = 1 + random() % bytes_max; n > 0; --n) text += "ab"[random() % 2];
      return text;
    };
    std::vector<std::string> list;
    for (size_t n = random() % 4; n > 0; --n) list.push_back(word(5));
    const std::string text = word(16);
    StopStrings stops(list);
    Cut got;
    std::string_view left = text;
    while (!left.empty() && got.stop.empty()) {
      const size_t bytes = 1 + random() % left.size();
      auto released = stops.feed(left.substr(0, bytes));
      left.remove_prefix(bytes);
      got.text += released.text;
      got.stop = released.stop;
    }
    if (got.stop.empty()) got.text += stops.finish();
    EXPECT_EQ(got, expected(text, list)) << text;
  }
}

}  // namespace
}  // namespace kvasir::api
