// kvasir pull, without its words: a reference becomes a complete model in the cache.
#pragma once

#include <functional>
#include <string>

#include "pull/model_cache.h"
#include "pull/range_download.h"

namespace kvasir::pull {

// Asks the hub, or the server that a URL names, what there is. kInvalid for a path.
Result<RemoteModel> find_remote_model(const WebClient& web, const WebAddress& hub,
                                      const ModelReference& reference);

struct PullProgress {
  DownloadStage stage = DownloadStage::kFetching;
  size_t file = 0;         // which of the model's
  uint64_t file_done = 0;  // of the file, in this stage
  uint64_t done = 0;       // of the model: verified bytes, never more than it has
};

struct PullWatch {
  std::function<void(const PullProgress&)> progress;
  std::function<bool()> stop;
};

struct PullPlan {
  std::string folder;
  uint64_t bytes_here = 0;     // complete or verified
  uint64_t bytes_missing = 0;  // the rest
  uint64_t bytes_free = 0;     // on the disk
};
// What a pull would do. Makes nothing.
PullPlan plan_pull(const ModelCache& cache, const RemoteModel& model);
// kLimit if what is missing, and 5 % more, does not fit.
Result<void> check_space(const PullPlan& plan);

// Fetches what is missing. kCorrupt if a complete file is another one than the server has now, and
// options.if_changed refuses.
Result<DownloadEnd> pull_model(const WebClient& web, const ModelCache& cache,
                               const RemoteModel& model, const DownloadOptions& options,
                               uint64_t bytes_per_s, const PullWatch& watch);

// The headers of a model's files, as sparse files of full length in `folder`: enough to say what
// the model is. Gives the path to open.
Result<std::string> fetch_headers(const WebClient& web, const RemoteModel& model,
                                  const std::string& folder);

}  // namespace kvasir::pull
