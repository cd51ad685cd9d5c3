#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "cli/parsing.h"

namespace kvasir::cli {
namespace {

// Ten times a second is smooth; more often costs more than it shows.
constexpr std::chrono::milliseconds kShowEvery{100};

size_t terminal_columns() {
  struct winsize size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

std::string time_text(double seconds) {
  auto whole = static_cast<uint64_t>(std::llround(seconds));
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string amount_text(Unit unit, uint64_t amount) {
  return unit == Unit::kBytes ? bytes_text(amount) : counted(amount, "token");
}

}  // namespace

std::string progress_line(const std::string& title, Unit unit, uint64_t done, uint64_t all,
                          double seconds, size_t columns) {
  const double share =
      all == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(all));
  std::string numbers = fmt::format(" {:3.0f} %  {} of {}", share * 100, amount_text(unit, done),
                                    amount_text(unit, all));
  // A rate from less than this is noise.
  if (seconds >= 0.5 && done > 0) {
    const double rate = static_cast<double>(done) / seconds;
    const double left = static_cast<double>(all - std::min(done, all)) / rate;
    numbers += fmt::format("  {}/s  {} left", amount_text(unit, static_cast<uint64_t>(rate)),
                           left < 360'000 ? time_text(left) : std::string("long"));
  }
  constexpr size_t kBarMax = 40;
  constexpr size_t kBarMin = 8;
  std::string line = title;
  const size_t used = title.size() + numbers.size() + 4;  // " [" and "]", and a free last column
  if (used + kBarMin <= columns) {
    const size_t bar = std::min(kBarMax, columns - used);
    const auto full = static_cast<size_t>(share * static_cast<double>(bar));
    line += " [" + std::string(full, '#') + std::string(bar - full, '.') + "]";
  }
  line += numbers;
  return line.substr(0, columns == 0 ? 0 : columns - 1);
}

ProgressBar::ProgressBar(std::string title, Unit unit)
    : title_(std::move(title)), unit_(unit), terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (!shown_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

void ProgressBar::update(uint64_t done, uint64_t all) {
  if (!terminal_) return;
  const Clock::time_point now = Clock::now();
  if (shown_ && now - shown_at_ < kShowEvery && done < all) return;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::string line = progress_line(title_, unit_, done, all, seconds, terminal_columns());
  std::fputs(("\r\x1b[K" + line).c_str(), stderr);
  std::fflush(stderr);
  shown_at_ = now;
  shown_ = true;
}

}  // namespace kvasir::cli
