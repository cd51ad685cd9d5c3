// kvasir status: what a backbone says of its swarm.
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/parsing.h"
#include "cli/swarm_text.h"
#include "cli/verbs.h"
#include "net/http_client.h"
#include "swarm/status_json.h"
#include "swarm/swarm_listener.h"

namespace kvasir::cli {
namespace {

constexpr uint64_t kAnswerWithinMs = 10'000;

// "ws://host:port", "http://host:port" or "host:port", with or without a path.
Result<net::Url> status_url(const std::string& text) {
  KVASIR_TRY(net::Url url,
             net::parse_url(text.find("://") == std::string::npos ? "http://" + text : text));
  if (url.scheme == "ws") url.scheme = "http";
  if (url.scheme == "wss") url.scheme = "https";
  if (url.target == "/" || url.target == swarm::kSwarmPath)
    url.target = std::string(swarm::kStatusPath);
  return url;
}

}  // namespace

Result<int> status(const StatusOptions& options) {
  KVASIR_TRY(const net::Url url, status_url(options.connect));
  net::HttpCall call;
  call.within_ms = kAnswerWithinMs;
  auto response = net::fetch(url, call);
  if (!response) {
    fmt::print(stderr,
               "error: {}\nhint:  start one with  kvasir generate --swarm-listen PORT ...\n",
               on_one_line(response.error().message));
    return kUnreachable;
  }
  if (response->status != 200)
    return Error::corrupt("{} answers {} instead of a swarm's status", net::url_text(url),
                          response->status)
        .with_hint("name the address that workers connect to");
  KVASIR_TRY(const swarm::SwarmStatus status, swarm::parse_status_json(response->body));
  KVASIR_TRY_VOID(
      Output::standard().write(options.json ? response->body + "\n" : status_text(status)));
  return kSuccess;
}

}  // namespace kvasir::cli
