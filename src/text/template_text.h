// Text that knows which parts of it the template wrote and which came in as data. Special tokens
// are recognised in the former only, so the mark decides whether "<|im_end|>" ends a turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::text::templates {

enum class Origin : uint8_t { kData, kTemplate };

inline Origin both(Origin a, Origin b) {
  return a == Origin::kTemplate && b == Origin::kTemplate ? Origin::kTemplate : Origin::kData;
}

// Valid UTF-8. One thread.
class MarkedText {
 public:
  struct Run {
    size_t end;  // in bytes; it begins where the run before ends
    Origin origin;
  };

  MarkedText() = default;
  MarkedText(std::string text, Origin origin);

  const std::string& text() const { return text_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }
  // kTemplate only if all of it is.
  Origin origin() const;
  // Not empty, neighbours differ, together they are the text.
  std::span<const Run> runs() const { return runs_; }

  void append(std::string_view text, Origin origin);
  void append(const MarkedText& text) { append(text, 0, text.size()); }
  // The bytes [begin, end) of `text`, which are whole characters.
  void append(const MarkedText& text, size_t begin, size_t end);
  MarkedText part(size_t begin, size_t end) const;

 private:
  std::string text_;
  std::vector<Run> runs_;
};

}  // namespace kvasir::text::templates
