#include "pull/range_download.h"

#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/sha256.h"
#include "gguf/text_check.h"

namespace kvasir::pull {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kBackoffMsMax = 30'000;
constexpr uint64_t kRetryAfterSecondsMax = 60;
// Ranges that the disk lost between arriving and the proof are fetched again so many times.
constexpr int kProofsMax = 3;

// A weak one promises similar bytes only, and a time of change is no ETag: neither may be sent.
std::string if_range_of(const std::string& etag) {
  return etag.starts_with("\"") ? etag : "";
}

std::string etag_of(const TransferHead& head) {
  if (!head.etag.empty()) return head.etag;
  return head.last_modified.empty() ? "" : "changed " + head.last_modified;
}

Error changed(const std::string& name) {
  return Error::corrupt("{}: changed where it comes from while it was fetched", name)
      .with_hint("--restart fetches this file from its beginning");
}

Error go_on_hint(Error error) {
  if (error.hint.empty()) error.hint = "the same command goes on where this one ended";
  return error;
}

// How one request ended.
struct Attempt {
  std::optional<Error> final;   // no retry can help
  std::optional<Error> failed;  // one may
  uint64_t retry_after_ms = 0;
};

// Cuts what arrives into ranges.
class RangeCutter {
 public:
  RangeCutter(const JournalHead& head, uint64_t first, uint64_t end)
      : head_(head), index_(first), end_(end) {
    buffer_.reserve(kRangeBytes);
  }

  // Calls back with every whole range; stops at its first false. False also for bytes too many.
  bool take(ByteSpan bytes, const std::function<bool(uint64_t index, ByteSpan)>& on_range) {
    while (!bytes.empty()) {
      if (index_ == end_) return false;
      const size_t want = static_cast<size_t>(head_.range_bytes(index_)) - buffer_.size();
      const ByteSpan piece = bytes.first(std::min(want, bytes.size()));
      buffer_.insert(buffer_.end(), piece.begin(), piece.end());
      bytes = bytes.subspan(piece.size());
      if (piece.size() < want) return true;
      if (!on_range(index_, buffer_)) return false;
      buffer_.clear();
      ++index_;
    }
    return true;
  }
  bool done() const { return index_ == end_; }

 private:
  const JournalHead& head_;
  uint64_t index_, end_;
  std::vector<std::byte> buffer_;
};

// Guarded by mutex_: everything but the constants and what is atomic.
class Download {
 public:
  Download(const WebClient& web, const RemoteFile& file, Located located, PartFile& part,
           const DownloadOptions& options, Pacer& pacer, const DownloadWatch& watch)
      : web_(web),
        file_(file),
        located_(std::move(located)),
        part_(part),
        options_(options),
        pacer_(pacer),
        watch_(watch) {}

  // Until nothing is missing: false if it was stopped.
  Result<bool> run() {
    const size_t workers = located_.has_ranges ? std::max<uint32_t>(options_.connections, 1) : 1;
    working_ = workers;
    std::vector<std::thread> threads;
    for (size_t i = 0; i < workers; ++i) threads.emplace_back([this] { work(); });
    {
      std::unique_lock lock(mutex_);
      while (working_ > 0) {
        changed_.wait_for(lock, std::chrono::milliseconds(100));
        if (watch_.stop && watch_.stop()) {
          stopped_ = true;
          end(lock);
        }
        const uint64_t done = part_.verified_bytes();
        lock.unlock();
        if (watch_.progress) watch_.progress(DownloadStage::kFetching, done);
        lock.lock();
      }
    }
    for (std::thread& thread : threads) thread.join();
    if (error_) return *std::move(error_);
    return !stopped_;
  }

 private:
  using Lock = std::unique_lock<std::mutex>;

  void end(Lock&) {
    ending_ = true;
    changed_.notify_all();
    paced_.notify_all();
  }

  void work() {
    Lock lock(mutex_);
    while (!ending_) {
      const PartFile::Gap span = take_span();
      if (span.first == span.end) {
        // Another connection may yet give its span back.
        if (taken_.empty()) break;
        changed_.wait_for(lock, std::chrono::milliseconds(200));
        continue;
      }
      const Located from = located_;
      const uint64_t generation = generation_;
      lock.unlock();
      Attempt attempt = from.has_ranges ? fetch_span(from, span) : fetch_whole(from);
      lock.lock();
      taken_.erase(span.first);
      changed_.notify_all();
      if (attempt.final && !error_) error_ = std::move(attempt.final);
      if (error_) end(lock);
      if (attempt.failed && !ending_) after_failure(lock, attempt, generation);
    }
    --working_;
    changed_.notify_all();
  }

  // The first gap that nobody fetches. Spans that are being fetched are in taken_.
  PartFile::Gap take_span() {
    uint64_t from = 0;
    for (;;) {
      PartFile::Gap gap =
          part_.next_gap(from, located_.has_ranges ? options_.span_ranges : part_.head().ranges());
      if (gap.first == gap.end) return gap;
      // The span that begins last at or before the gap, if it reaches into it.
      auto next = taken_.upper_bound(gap.first);
      if (next != taken_.begin()) {
        const auto before = std::prev(next);
        if (before->second > gap.first) {
          from = before->second;
          continue;
        }
      }
      if (next != taken_.end()) gap.end = std::min(gap.end, next->first);
      taken_[gap.first] = gap.end;
      return gap;
    }
  }

  bool is_ending() const { return ending_; }

  void pace(size_t bytes) {
    Lock lock(mutex_);
    const auto now_us = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
            .count());
    const uint64_t delay_us = pacer_.delay_us(bytes, now_us);
    const auto until = Clock::now() + std::chrono::microseconds(delay_us);
    while (!ending_ && Clock::now() < until) paced_.wait_until(lock, until);
  }

  Result<void> keep(uint64_t index, ByteSpan bytes) {
    KVASIR_TRY(const WrittenRange range, part_.write(index, bytes));
    const Lock lock(mutex_);
    KVASIR_TRY_VOID(part_.record(range));
    failures_ = 0;
    return {};
  }

  // An answer to a request for bytes [begin, end): nothing if it may be read.
  std::optional<Attempt> refuse(const TransferHead& head, const Located& from, ByteRange asked) {
    Attempt attempt;
    const bool same = etag_of(head) == from.etag;
    if (head.status == 412 || head.status == 416 || (head.status == 200 && !same)) {
      attempt.final = changed(file_.name);
    } else if (head.status == 200) {
      attempt.failed = Error::io("{}: the server sent the whole file instead of a part",
                                 origin_text(from.address));
    } else if (head.status != 206) {
      attempt.failed = error_of_status(head.status, from.address);
      uint64_t seconds = 0;
      std::from_chars(head.retry_after.data(), head.retry_after.data() + head.retry_after.size(),
                      seconds);
      attempt.retry_after_ms = std::min(seconds, kRetryAfterSecondsMax) * 1000;
    } else if (!same) {
      attempt.final = changed(file_.name);
    } else {
      const auto range = parse_content_range(head.content_range);
      if (!range || range->range.begin != asked.begin || range->range.end != asked.end ||
          range->total != part_.head().bytes) {
        attempt.final = Error::corrupt("{}: was asked for the bytes {}-{} of {} and answers '{}'",
                                       origin_text(from.address), asked.begin, asked.end - 1,
                                       part_.head().bytes, gguf::printable(head.content_range));
      } else if (head.content_length && *head.content_length != asked.bytes()) {
        attempt.final =
            Error::corrupt("{}: says that {} bytes are {} long", origin_text(from.address),
                           asked.bytes(), *head.content_length);
      } else {
        return std::nullopt;
      }
    }
    return attempt;
  }

  Attempt fetch_span(const Located& from, PartFile::Gap span) {
    const JournalHead& head = part_.head();
    const ByteRange asked{span.first * kRangeBytes, std::min(span.end * kRangeBytes, head.bytes)};
    RangeCutter cutter(head, span.first, span.end);
    return exchange(
        {from.address, asked, if_range_of(from.etag), [this] { return is_ending(); }}, cutter,
        [&](const TransferHead& answer) { return refuse(answer, from, asked); },
        [this](uint64_t index, ByteSpan bytes) { return keep(index, bytes); });
  }

  // From a server that knows no ranges: from the beginning, whatever is here already.
  Attempt fetch_whole(const Located& from) {
    const JournalHead& head = part_.head();
    RangeCutter cutter(head, 0, head.ranges());
    return exchange(
        {from.address, std::nullopt, "", [this] { return is_ending(); }}, cutter,
        [&](const TransferHead& answer) -> std::optional<Attempt> {
          Attempt attempt;
          if (answer.status != 200)
            attempt.failed = error_of_status(answer.status, from.address);
          else if (etag_of(answer) != from.etag ||
                   (answer.content_length && *answer.content_length != head.bytes))
            attempt.final = changed(file_.name);
          else
            return std::nullopt;
          return attempt;
        },
        [this](uint64_t index, ByteSpan bytes) -> Result<void> {
          {
            const Lock lock(mutex_);
            if (part_.has(index)) {
              if (part_.hash_of(index) == sha256_hex(bytes)) return {};
              return changed(file_.name);
            }
          }
          return keep(index, bytes);
        });
  }

  Attempt exchange(const WebRequest& request, RangeCutter& cutter,
                   const std::function<std::optional<Attempt>(const TransferHead&)>& check_head,
                   const std::function<Result<void>(uint64_t, ByteSpan)>& keep_range) {
    std::optional<Attempt> refused;
    std::optional<Error> broken;
    const auto on_head = [&](const TransferHead& head) {
      refused = check_head(head);
      return !refused;
    };
    const auto on_range = [&](uint64_t index, ByteSpan bytes) {
      auto kept = keep_range(index, bytes);
      if (!kept) broken = std::move(kept.error());
      return kept.has_value();
    };
    const auto on_body = [&](ByteSpan bytes) {
      if (ending_) return false;
      if (!cutter.take(bytes, on_range)) {
        if (!broken)
          broken =
              Error::corrupt("{}: sends more than was asked for", origin_text(request.address));
        return false;
      }
      pace(bytes.size());
      return true;
    };
    auto answer = web_.get(request, on_head, on_body);
    if (refused) return *std::move(refused);
    Attempt attempt;
    if (broken)
      attempt.final = std::move(broken);
    else if (!answer && answer.error().kind != ErrorKind::kIo)
      attempt.final = std::move(answer.error());
    else if (!answer)
      attempt.failed = std::move(answer.error());
    else if (!cutter.done())
      attempt.failed =
          Error::io("{}: the answer ended before its end", origin_text(request.address));
    return attempt;
  }

  // Waits, then asks the origin again: an address behind a redirect lives for some minutes only.
  // One connection does it for all, so that a cut line counts once and not once per connection.
  void after_failure(Lock& lock, const Attempt& attempt, uint64_t generation) {
    if (generation != generation_) return;  // another one has done it meanwhile
    if (recovering_) {
      while (!ending_ && recovering_) changed_.wait(lock);
      return;
    }
    recovering_ = true;
    recover(lock, attempt);
    recovering_ = false;
    changed_.notify_all();
  }

  void recover(Lock& lock, const Attempt& attempt) {
    Error last = *attempt.failed;
    while (!ending_) {
      if (watch_.stop && watch_.stop()) {
        stopped_ = true;
        return end(lock);
      }
      if (++failures_ > options_.failures_max) {
        if (!error_) error_ = go_on_hint(std::move(last));
        return end(lock);
      }
      pause(lock, std::max(backoff_ms(), attempt.retry_after_ms));
      if (ending_) return;
      lock.unlock();
      auto located = locate(web_, file_.address);
      lock.lock();
      if (located) return go_on_with(lock, std::move(*located));
      if (located.error().kind != ErrorKind::kIo) {
        if (!error_) error_ = std::move(located.error());
        return end(lock);
      }
      last = std::move(located.error());
    }
  }

  uint64_t backoff_ms() const {
    return std::min(options_.backoff_ms << std::min<uint32_t>(failures_ - 1, 16), kBackoffMsMax);
  }

  void pause(Lock& lock, uint64_t wait_ms) {
    const auto until = Clock::now() + std::chrono::milliseconds(wait_ms);
    while (!ending_ && Clock::now() < until) paced_.wait_until(lock, until);
  }

  void go_on_with(Lock& lock, Located located) {
    const JournalHead now{located.bytes, located.etag,
                          located.sha256.empty() ? file_.sha256 : located.sha256};
    if (!is_same_file(part_.head(), now)) {
      if (!error_) error_ = changed(file_.name);
      return end(lock);
    }
    ++generation_;
    // The number of connections was chosen for the first answer.
    located.has_ranges = located_.has_ranges;
    located_ = std::move(located);
  }

  const WebClient& web_;
  const RemoteFile& file_;
  Located located_;
  PartFile& part_;
  const DownloadOptions& options_;
  Pacer& pacer_;
  const DownloadWatch& watch_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable paced_;
  std::map<uint64_t, uint64_t> taken_;  // spans that are being fetched: first -> end
  std::atomic<bool> ending_ = false;
  bool stopped_ = false;
  bool recovering_ = false;
  uint64_t generation_ = 0;
  uint32_t failures_ = 0;
  size_t working_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Result<DownloadEnd> download_file(const WebClient& web, const RemoteFile& file,
                                  const std::string& path, const DownloadOptions& options,
                                  Pacer& pacer, const DownloadWatch& watch) {
  const auto stopped = [&] { return watch.stop && watch.stop(); };
  const auto report = [&](DownloadStage stage) {
    return [&watch, &stopped, stage](uint64_t done) {
      if (watch.progress) watch.progress(stage, done);
      return !stopped();
    };
  };
  auto located = locate(web, file.address);
  if (!located) {
    if (stopped()) return DownloadEnd::kStopped;
    return std::move(located.error());
  }
  if (located->bytes != file.bytes ||
      (!located->sha256.empty() && !file.sha256.empty() && located->sha256 != file.sha256)) {
    return Error::corrupt("{}: {} bytes were promised, the server has another file of {} bytes",
                          file.name, file.bytes, located->bytes);
  }
  const JournalHead head{file.bytes, located->etag,
                         file.sha256.empty() ? located->sha256 : file.sha256};
  auto part = PartFile::open(path, head, options.if_changed, report(DownloadStage::kChecking));
  if (!part) {
    if (stopped()) return DownloadEnd::kStopped;
    return std::move(part.error());
  }
  for (int proofs = 0; proofs < kProofsMax; ++proofs) {
    if (!part->complete()) {
      Download download(web, file, *located, *part, options, pacer, watch);
      KVASIR_TRY(const bool complete, download.run());
      if (!complete) return DownloadEnd::kStopped;
    }
    auto proved = part->prove(report(DownloadStage::kProving));
    if (!proved) {
      if (stopped()) return DownloadEnd::kStopped;
      return std::move(proved.error());
    }
    if (*proved) {
      KVASIR_TRY_VOID(part->finish());
      return DownloadEnd::kComplete;
    }
  }
  return Error::io("{}: the disk does not keep what is written to it", path);
}

}  // namespace kvasir::pull
