#include "worker/stop_signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <mutex>
#include <thread>

namespace kvasir::worker {
namespace {

// What shells report of a process that the signal itself ended.
constexpr int kExitBySignal = 128;

}  // namespace

struct StopSignals::State {
  sigset_t signals, before;
  std::mutex mutex;
  std::function<void()> stop;  // guarded by mutex
  bool over = false;           // guarded by mutex
  std::thread thread;

  void watch() {
    for (bool first = true;; first = false) {
      int signal = 0;
      ::sigwait(&signals, &signal);
      const std::lock_guard lock(mutex);
      if (over) return;
      if (!first || !stop) ::_exit(kExitBySignal + signal);
      stop();
    }
  }
};

StopSignals::StopSignals() : state_(std::make_unique<State>()) {
  ::sigemptyset(&state_->signals);
  ::sigaddset(&state_->signals, SIGTERM);
  ::sigaddset(&state_->signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &state_->signals, &state_->before);
  state_->thread = std::thread([this] { state_->watch(); });
}

StopSignals::~StopSignals() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->over = true;
  }
  ::pthread_kill(state_->thread.native_handle(), SIGTERM);
  state_->thread.join();
  ::pthread_sigmask(SIG_SETMASK, &state_->before, nullptr);
}

void StopSignals::on_stop(std::function<void()> stop) {
  const std::lock_guard lock(state_->mutex);
  state_->stop = std::move(stop);
}

}  // namespace kvasir::worker
