// Fetches one file by ranges, over several connections, until it is proved or somebody stops it.
#pragma once

#include <functional>
#include <string>

#include "pull/pacer.h"
#include "pull/part_file.h"
#include "pull/remote_model.h"

namespace kvasir::pull {

struct DownloadOptions {
  uint32_t connections = 4;
  IfChanged if_changed = IfChanged::kRefuse;
  // In a row, without a range that arrived in between.
  uint32_t failures_max = 6;
  // After the first of them, then doubled each time, up to half a minute.
  uint64_t backoff_ms = 500;
  // Of one request. Smaller: more round trips. Larger: less even use of the connections at the end.
  uint64_t span_ranges = 32;
};

enum class DownloadStage : uint8_t {
  kChecking,  // what an earlier run left
  kFetching,
  kProving,  // the whole against its checksum
};

struct DownloadWatch {
  // From the caller's thread, a few times a second: bytes of this file that are checked, verified
  // or proved, never more than it has.
  std::function<void(DownloadStage stage, uint64_t done_bytes)> progress;
  std::function<bool()> stop;  // may be asked from any thread
};

enum class DownloadEnd : uint8_t { kComplete, kStopped };

// `path`: the finished file; "<path>.part" and "<path>.journal" beside it until then. Blocks.
// kCorrupt if the file changed, or is not what its checksum says, or the server breaks its own
// promises; kIo if the other end fails again and again. What has arrived stays in any case.
Result<DownloadEnd> download_file(const WebClient& web, const RemoteFile& file,
                                  const std::string& path, const DownloadOptions& options,
                                  Pacer& pacer, const DownloadWatch& watch);

}  // namespace kvasir::pull
