#include "cli/interrupt.h"

namespace kvasir::cli {
namespace {

volatile sig_atomic_t interrupted = 0;

void on_interrupt(int) {
  interrupted = 1;
}

}  // namespace

InterruptScope::InterruptScope() {
  clear();
  struct sigaction action = {};
  action.sa_handler = on_interrupt;  // without SA_RESTART
  ::sigaction(SIGINT, &action, &previous_);
}

InterruptScope::~InterruptScope() {
  ::sigaction(SIGINT, &previous_, nullptr);
}

bool InterruptScope::requested() {
  return interrupted != 0;
}

void InterruptScope::clear() {
  interrupted = 0;
}

}  // namespace kvasir::cli
