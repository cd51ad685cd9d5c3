// A progress bar on standard error, for people: silent where that is no terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace kvasir::cli {

enum class Unit : uint8_t { kBytes, kTokens };

// One line of less than `columns` characters: what is done, the rate and the time that is left.
std::string progress_line(const std::string& title, Unit unit, uint64_t done, uint64_t all,
                          double seconds, size_t columns);

// One thread.
class ProgressBar {
 public:
  ProgressBar(std::string title, Unit unit);
  ~ProgressBar();  // removes the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(uint64_t done, uint64_t all);

 private:
  using Clock = std::chrono::steady_clock;

  std::string title_;
  Unit unit_;
  bool terminal_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_at_;
  bool shown_ = false;
};

}  // namespace kvasir::cli
