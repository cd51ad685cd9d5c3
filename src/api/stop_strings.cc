#include "api/stop_strings.h"

#include <algorithm>

namespace kvasir::api {

size_t partial_marker(std::string_view text, std::string_view marker) {
  if (marker.empty()) return 0;
  for (size_t bytes = std::min(text.size(), marker.size() - 1); bytes > 0; --bytes)
    if (text.substr(text.size() - bytes) == marker.substr(0, bytes)) return bytes;
  return 0;
}

StopStrings::Released StopStrings::feed(std::string_view text) {
  Released released;
  for (const char c : text) {
    held_ += c;
    for (const std::string& stop : stops_)
      if (stop.size() > released.stop.size() && std::string_view(held_).ends_with(stop))
        released.stop = stop;
    if (released.stop.empty()) continue;
    released.text = held_.substr(0, held_.size() - released.stop.size());
    held_.clear();
    return released;
  }
  size_t hold = 0;
  for (const std::string& stop : stops_) hold = std::max(hold, partial_marker(held_, stop));
  released.text = held_.substr(0, held_.size() - hold);
  held_.erase(0, held_.size() - hold);
  return released;
}

}  // namespace kvasir::api
