// Who runs and who waits: bounds, and fairness between users. Pure bookkeeping: no clock, no
// threads, no sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "engine/scheduler_request.h"

namespace kvasir::engine {

struct AdmissionLimits {
  size_t context_max = 4096;  // tokens of one request, prompt and answer together
  uint64_t memory_bytes = 0;  // keys, values and recurrent states of all that run
  size_t running_max = 32;
  size_t running_per_user_max = SIZE_MAX;
  size_t queue_max = 256;  // requests that wait
  size_t queue_per_user_max = 64;
  // How often smaller requests of other users may go ahead of one that does not fit yet. Smaller:
  // memory stands idle; larger: a long request waits for long.
  size_t overtakes_max = 8;
};

// One thread. Users take turns, each user's requests go in order. What a request may come to need
// is set aside when it is admitted, so that nothing that runs ever has to stop for lack of memory.
class AdmissionQueue {
 public:
  explicit AdmissionQueue(const AdmissionLimits& limits) : limits_(limits) {}

  struct Candidate {
    uint64_t id = 0;
    std::string user;
    size_t tokens = 0;   // prompt and answer
    uint64_t bytes = 0;  // that it may come to need
  };
  // Puts it into the queue, or says why not.
  std::optional<Refused> offer(Candidate candidate);
  // The next one to run, its memory set aside; nothing if nobody waits or fits.
  std::optional<uint64_t> admit();
  // Takes a waiting one out; false if it does not wait.
  bool remove(uint64_t id);
  // Of one that was admitted.
  void finished(uint64_t id);

  // Of one that was offered and has not finished.
  bool is_waiting(uint64_t id) const { return running_.find(id) == running_.end(); }
  size_t waiting() const { return waiting_; }
  size_t running() const { return running_.size(); }
  uint64_t bytes_in_use() const { return bytes_in_use_; }

 private:
  struct User {
    std::string key;
    std::deque<Candidate> waiting;  // never empty
    size_t overtaken = 0;           // how often others went ahead of the first one
  };
  struct Running {
    std::string user;
    uint64_t bytes = 0;
  };

  const AdmissionLimits limits_;
  std::deque<User> users_;  // those who wait, next one first
  std::unordered_map<uint64_t, Running> running_;
  std::unordered_map<std::string, size_t> running_of_;  // by user
  size_t waiting_ = 0;
  uint64_t bytes_in_use_ = 0;
};

}  // namespace kvasir::engine
