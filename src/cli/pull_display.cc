#include "cli/pull_display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "cli/parsing.h"
#include "cli/progress.h"

namespace kvasir::cli {
namespace {

constexpr std::chrono::milliseconds kShowEvery{200};
constexpr double kMeasureSecondsMax = 60;
constexpr size_t kRateColumns = 26;  // "  999.9 MiB/s  1000:00 left"

size_t terminal_columns() {
  struct winsize size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

const char* stage_name(pull::DownloadStage stage) {
  switch (stage) {
    case pull::DownloadStage::kChecking:
      return "checking what is here";
    case pull::DownloadStage::kFetching:
      return "fetching";
    case pull::DownloadStage::kProving:
      break;
  }
  return "checking the whole";
}

// "fetching", or "fetching 2 of 3 (48 %)" where there are several files.
std::string title_of(const pull::RemoteModel& model, const pull::PullProgress& progress) {
  std::string title = stage_name(progress.stage);
  if (model.files.size() > 1) {
    const uint64_t file_bytes = model.files[progress.file].bytes;
    title += fmt::format(" {} of {} ({} %)", progress.file + 1, model.files.size(),
                         progress.file_done * 100 / file_bytes);
  }
  return title;
}

// Of the whole model while it is fetched, of one file while that is checked.
std::pair<uint64_t, uint64_t> amounts(const pull::RemoteModel& model,
                                      const pull::PullProgress& progress) {
  if (progress.stage == pull::DownloadStage::kFetching) return {progress.done, model.bytes()};
  return {progress.file_done, model.files[progress.file].bytes};
}

}  // namespace

std::string pull_line(const pull::RemoteModel& model, const pull::PullProgress& progress,
                      uint64_t rate, size_t columns) {
  const auto [done, all] = amounts(model, progress);
  const size_t rate_columns = columns > 2 * kRateColumns ? kRateColumns : 0;
  std::string line =
      progress_line(title_of(model, progress), Unit::kBytes, done, all, 0, columns - rate_columns);
  if (rate_columns == 0 || rate == 0 || progress.stage != pull::DownloadStage::kFetching)
    return line;
  const uint64_t seconds = (all - std::min(done, all)) / rate;
  line += fmt::format("  {}/s", bytes_text(rate));
  if (seconds < 360'000) line += fmt::format("  {}:{:02} left", seconds / 60, seconds % 60);
  return line.substr(0, columns - 1);
}

std::string pull_log_line(const pull::RemoteModel& model, const pull::PullProgress& progress) {
  const auto [done, all] = amounts(model, progress);
  return fmt::format("{}: {} %  {} of {}", title_of(model, progress), done * 100 / all,
                     bytes_text(done), bytes_text(all));
}

PullDisplay::PullDisplay(const pull::RemoteModel& model)
    : model_(model), terminal_(::isatty(STDERR_FILENO) == 1) {}

PullDisplay::~PullDisplay() {
  if (!shown_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

uint64_t PullDisplay::rate_now(uint64_t done) {
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - measured_from_).count();
  if (!measuring_ || done < measured_done_ || seconds > kMeasureSecondsMax) {
    // Keeps half of the old measure, so that the rate does not jump.
    const bool goes_on = measuring_ && done >= measured_done_;
    measured_from_ = goes_on ? now - std::chrono::seconds(30) : now;
    measured_done_ = goes_on ? done - (done - measured_done_) / 2 : done;
    measuring_ = true;
    return 0;
  }
  // A rate from less than this is noise.
  if (seconds < 0.5) return 0;
  return static_cast<uint64_t>(static_cast<double>(done - measured_done_) / seconds);
}

void PullDisplay::show(const pull::PullProgress& progress) {
  if (!terminal_) {
    if (progress.stage != pull::DownloadStage::kFetching) return;
    const int twentieths = static_cast<int>(progress.done * 20 / model_.bytes());
    if (twentieths <= shown_twentieths_) return;
    shown_twentieths_ = twentieths;
    fmt::print(stderr, "{}\n", pull_log_line(model_, progress));
    return;
  }
  const Clock::time_point now = Clock::now();
  if (shown_ && now - shown_at_ < kShowEvery) return;
  const uint64_t rate =
      progress.stage == pull::DownloadStage::kFetching ? rate_now(progress.done) : 0;
  std::fputs(("\r\x1b[K" + pull_line(model_, progress, rate, terminal_columns())).c_str(), stderr);
  std::fflush(stderr);
  shown_at_ = now;
  shown_ = true;
}

}  // namespace kvasir::cli
