#include "text/template_text.h"

#include <algorithm>

namespace kvasir::text::templates {

MarkedText::MarkedText(std::string text, Origin origin) : text_(std::move(text)) {
  if (!text_.empty()) runs_.push_back({text_.size(), origin});
}

Origin MarkedText::origin() const {
  if (runs_.empty()) return Origin::kTemplate;
  return runs_.size() == 1 ? runs_.front().origin : Origin::kData;
}

void MarkedText::append(std::string_view text, Origin origin) {
  if (text.empty()) return;
  text_.append(text);
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end = text_.size();
  } else {
    runs_.push_back({text_.size(), origin});
  }
}

void MarkedText::append(const MarkedText& text, size_t begin, size_t end) {
  auto run = std::upper_bound(text.runs_.begin(), text.runs_.end(), begin,
                              [](size_t at, const Run& r) { return at < r.end; });
  for (; begin < end; ++run) {
    const size_t until = std::min(end, run->end);
    append(std::string_view(text.text_).substr(begin, until - begin), run->origin);
    begin = until;
  }
}

MarkedText MarkedText::part(size_t begin, size_t end) const {
  MarkedText result;
  result.append(*this, begin, end);
  return result;
}

}  // namespace kvasir::text::templates
