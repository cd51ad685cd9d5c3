// One HTTP request for programs that can wait: status pages, tests. Not for the loop's thread.
#pragma once

#include <string>

#include "net/http_server.h"
#include "net/url.h"

namespace kvasir::net {

struct HttpCall {
  std::string method = "GET";
  HttpHeaders headers;
  std::string body;
  uint64_t within_ms = 10'000;
  size_t body_bytes_max = size_t{16} * 1024 * 1024;
};

// Blocks. Any status is a result; kIo if there is no server, kCorrupt if it speaks no HTTP.
Result<HttpResponse> fetch(const Url& url, const HttpCall& call = {});

}  // namespace kvasir::net
