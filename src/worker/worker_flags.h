// The flags of a worker, for `kvasir worker` and the small executable `kvasir-worker` alike. The
// only part of the module that knows the command-line library, whose header is slow to compile.
#pragma once

#include <CLI/CLI.hpp>

#include "worker/worker_options.h"

namespace kvasir::worker {

inline constexpr const char* kWorkerDescription =
    "Hold experts of a model and compute them for a backbone";
inline constexpr const char* kWorkerExits =
    "Exit codes: 0 drained, 1 failed, 2 usage, 3 not reachable (with --once), 4 refused for good.\n"
    "SIGTERM or Ctrl-C drains: open tickets are answered, new ones are not taken. A second one\n"
    "ends at once.\n";

void add_worker_flags(CLI::App& verb, WorkerOptions& options);

}  // namespace kvasir::worker
