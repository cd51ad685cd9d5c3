// kvasir-worker: the worker alone, for devices that hold experts and nothing else.
#include <signal.h>

#include <exception>

#include "base/mapped_file.h"
#include "worker/worker_flags.h"
#include "worker/worker_runtime.h"

namespace {

using namespace kvasir;

int report(const Error& error) {
  fmt::print(stderr, "error: {}\n", error.message);
  if (!error.hint.empty()) fmt::print(stderr, "hint:  {}\n", error.hint);
  return error.kind == ErrorKind::kInvalid ? worker::kExitUsage : worker::kExitFailed;
}

int parse_and_run(int argc, char** argv) {
  worker::WorkerOptions options;
  CLI::App app(std::string(worker::kWorkerDescription) + ".", "kvasir-worker");
  app.set_version_flag("--version", "kvasir-worker " KVASIR_VERSION);
  app.footer(worker::kWorkerExits);
  worker::add_worker_flags(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return worker::kExitDrained;
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
    return worker::kExitDrained;
  } catch (const CLI::ParseError& error) {
    return report(
        Error::invalid("{}", error.what()).with_hint("kvasir-worker --help lists what there is"));
  }
  Result<int> code = worker::run_worker(options);
  return code ? *code : report(code.error());
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  install_sigbus_reporter();
  try {
    return parse_and_run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: unexpected: {}\n", error.what());
  }
  return worker::kExitFailed;
}
