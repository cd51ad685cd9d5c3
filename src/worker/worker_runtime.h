// A worker as a process: tests the arithmetic, loads experts and identity, serves until a signal,
// and says on standard error what happens.
#pragma once

#include "base/error.h"
#include "worker/worker_options.h"

namespace kvasir::worker {

enum WorkerExit : int {
  kExitDrained = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitUnreachable = 3,  // only with --once
  kExitRefused = 4,      // for good: dialling again cannot help
};

// The exit code; an Error is for the caller to print (kInvalid as a usage error).
Result<int> run_worker(const WorkerOptions& options);

// The file of --identity, if it is not given: $XDG_STATE_HOME/kvasir/worker.key or
// ~/.local/state/kvasir/worker.key. kInvalid without a home.
Result<std::string> default_identity_path();

}  // namespace kvasir::worker
