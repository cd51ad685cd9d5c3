// Ctrl-C as a question that long work asks itself.
#pragma once

#include <signal.h>

namespace kvasir::cli {

// While one exists, SIGINT sets a flag (and makes blocking reads return) instead of ending the
// program. One at a time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  static bool requested();
  static void clear();

 private:
  struct sigaction previous_;
};

}  // namespace kvasir::cli
