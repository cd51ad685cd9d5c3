// Streaming bytes -> text: never hands out half a character, nor text that may turn out to be the
// beginning of a stop string.
//
// However the same bytes are cut into pieces, the pieces of text handed out add up to the same.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvasir::text {

// One generation's output. One thread.
class Detokenizer {
 public:
  // Empty stop strings are ignored; invalid UTF-8 in one is replaced as it is in the output.
  explicit Detokenizer(std::vector<std::string> stop_strings = {});

  // Adds the bytes of one token and returns the text that is now certain: whole valid UTF-8
  // characters; bytes that can never become one are replaced by U+FFFD at once, one for each
  // longest beginning of a character (read_utf8). Linear time.
  std::string push(std::string_view bytes);
  // The end: what was held back; an incomplete character becomes one U+FFFD.
  std::string finish();
  // True once a stop string was completed; text from it on is never returned. Of several, the one
  // completed first counts; if two are completed by the same character, the longer.
  bool stopped() const { return stopped_; }

 private:
  // Knuth-Morris-Pratt: how much of the stop string the text so far ends with.
  struct Stop {
    std::string text;
    // borders[n]: the longest proper prefix of text[0, n) that is also its suffix.
    std::vector<size_t> borders;
    size_t matched = 0;

    explicit Stop(std::string stop_text);
    bool advance(char byte);  // true if it is complete
  };

  void add_text(std::string_view text);
  std::string take_certain();

  std::vector<Stop> stops_;
  std::string pending_bytes_;  // incomplete character
  std::string held_text_;      // ends with the possible beginning of a stop string
  bool stopped_ = false;
};

}  // namespace kvasir::text
