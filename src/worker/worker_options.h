// What the user of a worker asked for, as plain data: filled by worker_flags.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "net/url.h"
#include "wire/handshake_messages.h"
#include "worker/mischief.h"
#include "worker/unit_loader.h"

namespace kvasir::worker {

struct WorkerOptions {
  net::Url url;  // without a host: none was given
  UnitSources units;
  std::optional<std::string> identity;  // a key file; default: default_identity_path()
  bool ephemeral = false;               // an identity that is forgotten at the end
  std::optional<wire::Key> server_key;  // take no other server
  std::optional<std::string> token_file;
  std::optional<uint64_t> threads;  // default: the processors this process may use
  bool once = false;
  bool self_test = false;  // nothing but the known-answer test
  Mischief mischief;       // no flag sets it; the variable kMischiefVariable replaces it
};

}  // namespace kvasir::worker
