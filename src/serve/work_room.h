// Threads for what takes longer than an event loop may be kept: reading requests, templates,
// tokens.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kvasir::serve {

// Thread-safe. Work is begun in the order given.
class WorkRoom {
 public:
  // waiting_max: work that nobody has begun.
  WorkRoom(size_t threads, size_t waiting_max);
  ~WorkRoom();  // drops what nobody has begun, waits for the rest
  WorkRoom(const WorkRoom&) = delete;
  WorkRoom& operator=(const WorkRoom&) = delete;

  // False if too much waits already.
  [[nodiscard]] bool give(std::function<void()> work);

 private:
  void run();

  const size_t waiting_max_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kvasir::serve
