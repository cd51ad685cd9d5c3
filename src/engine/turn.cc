#include "engine/turn.h"

#include "base/error.h"

namespace kvasir::engine {

void Turn::take() {
  std::unique_lock lock(mutex_);
  const uint64_t mine = next_ticket_++;
  changed_.wait(lock, [&] { return serving_ == mine; });
}

void Turn::give() {
  {
    std::lock_guard lock(mutex_);
    KVASIR_CHECK(serving_ < next_ticket_);  // otherwise nobody has it
    ++serving_;
  }
  changed_.notify_all();  // a few lanes at most
}

size_t Turn::waiting() const {
  std::lock_guard lock(mutex_);
  return next_ticket_ - serving_ <= 1 ? 0 : next_ticket_ - serving_ - 1;
}

}  // namespace kvasir::engine
