// kvasir pull: a model from a hub or a web server into the cache.
#include "pull/pull.h"

#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/pull_display.h"
#include "cli/verbs.h"
#include "cli/web.h"

namespace kvasir::cli {
namespace {

// What is here is enough, or it is an error: nobody is asked.
Result<int> pull_offline(const pull::ModelCache& cache, const pull::ModelReference& reference,
                         const std::string& text) {
  for (const pull::CachedModel& model : cache.find(reference)) {
    if (!model.complete) {
      return Error::not_found("{}: {} of {} are here, and --offline forbids to fetch the others",
                              text, bytes_text(model.bytes_here), bytes_text(model.record.bytes()));
    }
    KVASIR_TRY_VOID(Output::standard().write(model.path() + "\n"));
    return kSuccess;
  }
  return Error::not_found("{}: is not here, and --offline forbids to fetch it", text);
}

void announce(const pull::RemoteModel& model, const pull::PullPlan& plan) {
  fmt::print(stderr, "{}: {} in {}", on_one_line(model.reference), bytes_text(model.bytes()),
             counted(model.files.size(), "file"));
  if (plan.bytes_here > 0) fmt::print(stderr, ", {} here", bytes_text(plan.bytes_here));
  fmt::print(stderr, "; {} to fetch, {} free on the disk\n", bytes_text(plan.bytes_missing),
             bytes_text(plan.bytes_free));
}

}  // namespace

Result<int> pull(const PullOptions& options) {
  KVASIR_TRY(const pull::ModelReference reference, pull::parse_model_reference(options.reference));
  KVASIR_TRY(const pull::ModelCache cache, pull::ModelCache::of_user());
  if (options.web.offline) return pull_offline(cache, reference, options.reference);

  const InterruptScope interrupts;
  KVASIR_TRY(const Web web, open_web(options.web, reference, InterruptScope::requested));
  auto model = pull::find_remote_model(*web.client, web.hub, reference);
  if (!model) {
    if (InterruptScope::requested()) return kInterrupted;
    if (model.error().kind != ErrorKind::kIo) return std::move(model.error());
    fmt::print(stderr, "error: {}\n", on_one_line(model.error().message));
    return kUnreachable;
  }
  const pull::PullPlan plan = pull::plan_pull(cache, *model);
  announce(*model, plan);
  KVASIR_TRY_VOID(pull::check_space(plan));
  if (options.dry_run) return kSuccess;

  pull::DownloadOptions download;
  download.connections = static_cast<uint32_t>(options.connections);
  if (options.restart) download.if_changed = pull::IfChanged::kRestart;
  pull::DownloadEnd end;
  {
    PullDisplay display(*model);
    pull::PullWatch watch;
    watch.stop = InterruptScope::requested;
    watch.progress = [&](const pull::PullProgress& progress) { display.show(progress); };
    KVASIR_TRY(end, pull::pull_model(*web.client, cache, *model, download, options.rate.value_or(0),
                                     watch));
  }
  if (end == pull::DownloadEnd::kStopped) {
    const pull::PullPlan left = pull::plan_pull(cache, *model);
    fmt::print(stderr, "stopped: {} of {} are here; the same command goes on\n",
               bytes_text(left.bytes_here), bytes_text(model->bytes()));
    return kInterrupted;
  }
  KVASIR_TRY_VOID(Output::standard().write(plan.folder + "/" + model->files.front().name + "\n"));
  return kSuccess;
}

}  // namespace kvasir::cli
