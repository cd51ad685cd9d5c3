// One HTTP exchange, behind an interface so that tests can script the other end. Follows nothing,
// decides nothing: that is WebClient's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "pull/web_address.h"

namespace kvasir::pull {

// Half-open.
struct ByteRange {
  uint64_t begin = 0, end = 0;
  uint64_t bytes() const { return end - begin; }
};

struct TransferRequest {
  WebAddress address;
  std::optional<ByteRange> range;
  std::string if_range;  // an ETag; empty: unconditional
  std::string token;     // empty: none
  // Asked about once a second and with every piece: true ends the exchange with kIo.
  std::function<bool()> stop;
};

// The headers that count, as sent; empty where there was none.
struct TransferHead {
  int status = 0;
  std::string etag, last_modified;
  std::string content_range, content_encoding, transfer_encoding;
  std::optional<uint64_t> content_length;
  std::string location, link, retry_after;
  std::string linked_etag;  // X-Linked-Etag: a hub's name for what it redirects to
};

// Thread-safe: many threads may wait in it, each for its own exchange.
class Transfer {
 public:
  virtual ~Transfer() = default;

  // False ends the exchange at once, which is then no error.
  using OnHead = std::function<bool(const TransferHead&)>;
  using OnBody = std::function<bool(ByteSpan)>;
  // GET. Blocks, but never without end: what trickles is cut off. Called back on the caller's
  // thread. kIo if the other end cannot be reached or stops before the end of its answer; kInvalid
  // if the address may not be connected to.
  virtual Result<void> get(const TransferRequest& request, const OnHead& on_head,
                           const OnBody& on_body) = 0;
};

struct CurlOptions {
  bool allow_private = false;  // connect to addresses that are not of the public internet, too
  uint64_t connect_within_s = 20;
  // Fewer bytes a second for so long: cut off.
  uint64_t slow_bytes_per_s = 512;
  uint64_t slow_within_s = 30;
};

// By libcurl, with the system's certificates and the usual proxy variables.
std::unique_ptr<Transfer> make_curl_transfer(CurlOptions options);

}  // namespace kvasir::pull
