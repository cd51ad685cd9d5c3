// Whose turn it is to compute. Several micro-batches share one thread pool and one set of kernels'
// scratch memory; each holds the turn while it computes. An expert service that waits for a network
// gives the turn away meanwhile and takes it again before it goes on, so that another micro-batch
// uses the processor.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace kvasir::engine {

// A mutex that is fair: first come, first served. Thread-safe. Whoever holds it gives it back after
// at most one step of computing, and waits for nothing while it has it.
class Turn {
 public:
  // Waits until everybody who asked before has had it.
  void take();
  // By the thread that took it.
  void give();
  // Who stands in line behind the one who has it.
  size_t waiting() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ticket_ = 0;  // guarded by mutex_
  uint64_t serving_ = 0;      // the ticket whose turn it is; guarded by mutex_
};

// Holds the turn while it lives.
class TurnHolder {
 public:
  explicit TurnHolder(Turn& turn) : turn_(turn) { turn_.take(); }
  ~TurnHolder() { turn_.give(); }
  TurnHolder(const TurnHolder&) = delete;
  TurnHolder& operator=(const TurnHolder&) = delete;

 private:
  Turn& turn_;
};

}  // namespace kvasir::engine
