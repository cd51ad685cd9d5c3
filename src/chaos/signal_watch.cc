#include "chaos/signal_watch.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace kvasir::chaos {

Result<SignalWatch> SignalWatch::create() {
  sigset_t watched, before;
  ::sigemptyset(&watched);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) ::sigaddset(&watched, signal);
  ::sigprocmask(SIG_BLOCK, &watched, &before);
  const int descriptor = ::signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
  if (descriptor < 0) {
    const int error = errno;
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return Error::io("cannot watch signals: {}", std::strerror(error));
  }
  return SignalWatch(descriptor, before);
}

SignalWatch::SignalWatch(SignalWatch&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), before_(other.before_) {}

SignalWatch::~SignalWatch() {
  if (descriptor_ < 0) return;
  read();  // what a person asked for was heard; it must not end the program now
  ::close(descriptor_);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

void SignalWatch::add_to(PollSet& polled) {
  polled.add(descriptor_, POLLIN, [this] { read(); });
}

void SignalWatch::read() {
  signalfd_siginfo signal;
  while (::read(descriptor_, &signal, sizeof signal) == sizeof signal)
    if (signal.ssi_signo != SIGCHLD) stop_requested_ = true;
}

}  // namespace kvasir::chaos
