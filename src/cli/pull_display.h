// What a person sees of a download: a line that changes on a terminal, else a line every 5 %.
#pragma once

#include <chrono>
#include <string>

#include "pull/pull.h"

namespace kvasir::cli {

// One line of less than `columns` characters. `rate` in bytes a second; 0: not known yet.
std::string pull_line(const pull::RemoteModel& model, const pull::PullProgress& progress,
                      uint64_t rate, size_t columns);
// For files and logs: "fetching 35 %  1.2 GiB of 3.4 GiB".
std::string pull_log_line(const pull::RemoteModel& model, const pull::PullProgress& progress);

// One thread.
class PullDisplay {
 public:
  explicit PullDisplay(const pull::RemoteModel& model);
  ~PullDisplay();  // removes the line
  PullDisplay(const PullDisplay&) = delete;
  PullDisplay& operator=(const PullDisplay&) = delete;

  void show(const pull::PullProgress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  uint64_t rate_now(uint64_t done);

  const pull::RemoteModel& model_;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point shown_at_;
  int shown_twentieths_ = -1;
  // Since the last minute or so: what was here before must not count as fetched now.
  Clock::time_point measured_from_;
  uint64_t measured_done_ = 0;
  bool measuring_ = false;
};

}  // namespace kvasir::cli
