// Cuts a streamed text at the first of some stop strings, and holds back what may become one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvasir::api {

// One thread.
class StopStrings {
 public:
  // None is empty.
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  struct Released {
    std::string text;  // certainly before any stop string
    std::string stop;  // the one that was found; empty: none, feed more
  };
  // The stop that is complete first wins, of two that end together the longer. So an answer ends at
  // the earliest token it can, and how the text was cut does not matter. Nothing may follow a stop.
  Released feed(std::string_view text);
  // The text ends here: what was held back.
  std::string finish() { return std::move(held_); }

 private:
  std::vector<std::string> stops_;
  std::string held_;
};

// How many bytes at the end of `text` are the beginning of `marker`, but not all of it.
size_t partial_marker(std::string_view text, std::string_view marker);

}  // namespace kvasir::api
