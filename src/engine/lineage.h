// Whose computations something rests on, for the day on which one of them turns out to be built on
// a lie: sequences go on from snapshots of others, and are wrong where these are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "expert/expert_service.h"

namespace kvasir::engine {

// One sequence, as long as anything rests on it: itself or a snapshot. The expert service keeps
// account of it as long.
class SequenceOwner {
 public:
  // `experts` outlives this.
  SequenceOwner(expert::ExpertService& experts, uint64_t id) : experts_(experts), id_(id) {}
  ~SequenceOwner() { experts_.forget(id_); }
  SequenceOwner(const SequenceOwner&) = delete;
  SequenceOwner& operator=(const SequenceOwner&) = delete;
  uint64_t id() const { return id_; }

 private:
  expert::ExpertService& experts_;
  const uint64_t id_;
};

// Immutable: thread-safe.
using Lineage = std::vector<std::shared_ptr<const SequenceOwner>>;

// doubted: as ExpertService::take_doubted() gives it.
inline bool is_doubted(const Lineage& lineage, std::span<const uint64_t> doubted) {
  return std::any_of(doubted.begin(), doubted.end(), [&](uint64_t id) {
    return id == expert::ExpertService::kEveryOwner ||
           std::any_of(lineage.begin(), lineage.end(),
                       [id](const auto& owner) { return owner->id() == id; });
  });
}

// News of doubts on their way to every lane. Thread-safe.
class Doubts {
 public:
  // The number of a new reader. Before anything is told.
  size_t add_reader() {
    const std::lock_guard lock(mutex_);
    unread_.emplace_back();
    return unread_.size() - 1;
  }
  // drop: drops what is kept and rests on them. No reader sees the one without the other.
  template <typename Drop>
  void tell(std::span<const uint64_t> doubted, const Drop& drop) {
    const std::lock_guard lock(mutex_);
    for (auto& unread : unread_) unread.insert(unread.end(), doubted.begin(), doubted.end());
    drop();
  }
  std::vector<uint64_t> take(size_t reader) {
    const std::lock_guard lock(mutex_);
    return std::exchange(unread_[reader], {});
  }
  // Keeps something, unless there is news that may concern it.
  template <typename Keep>
  void if_nothing_new(size_t reader, const Keep& keep) {
    const std::lock_guard lock(mutex_);
    if (unread_[reader].empty()) keep();
  }

 private:
  std::mutex mutex_;
  std::vector<std::vector<uint64_t>> unread_;  // of each reader
};

}  // namespace kvasir::engine
