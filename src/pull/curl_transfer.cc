// The only file that speaks HTTP: libcurl, told to follow nothing, to decode nothing but chunks,
// and to connect where the rules allow it.
#include <curl/curl.h>
#include <sys/socket.h>

#include <charconv>
#include <cstdlib>
#include <mutex>

#include "gguf/text_check.h"
#include "pull/ip_address.h"
#include "pull/proxy.h"
#include "pull/transfer.h"

namespace kvasir::pull {
namespace {

// Of one answer, all lines together. Real ones have 2 KiB.
constexpr size_t kHeadBytesMax = size_t{64} * 1024;

struct Exchange {
  const std::function<bool()>* stop = nullptr;
  const Transfer::OnHead* on_head = nullptr;
  const Transfer::OnBody* on_body = nullptr;
  bool check_address = false;
  bool address_refused = false;
  bool head_done = false;
  bool ended = false;  // by whoever is called back
  bool head_too_long = false;
  size_t head_bytes = 0;
  TransferHead head;
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

void take_header(TransferHead& head, std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string name = lower(trimmed(line.substr(0, colon)));
  const std::string_view value = trimmed(line.substr(colon + 1));
  const std::pair<std::string_view, std::string*> wanted[] = {
      {"etag", &head.etag},
      {"last-modified", &head.last_modified},
      {"content-range", &head.content_range},
      {"content-encoding", &head.content_encoding},
      {"transfer-encoding", &head.transfer_encoding},
      {"location", &head.location},
      {"link", &head.link},
      {"retry-after", &head.retry_after},
      {"x-linked-etag", &head.linked_etag}};
  for (const auto& [wanted_name, target] : wanted)
    if (name == wanted_name) *target = value;
  if (name == "content-length") {
    uint64_t length = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
    if (error == std::errc() && end == value.data() + value.size()) head.content_length = length;
  }
}

int status_of(std::string_view line) {
  const size_t space = line.find(' ');
  int status = 0;
  if (space != std::string_view::npos)
    std::from_chars(line.data() + space + 1, line.data() + line.size(), status);
  return status;
}

// False: the exchange ends.
bool begin_body(Exchange& exchange) {
  if (!exchange.head_done) {
    exchange.head_done = true;
    exchange.ended = !(*exchange.on_head)(exchange.head);
  }
  return !exchange.ended;
}

size_t on_header_line(char* data, size_t, size_t bytes, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::string_view line(data, bytes);
  exchange.head_bytes += bytes;
  if (exchange.head_bytes > kHeadBytesMax) {
    exchange.head_too_long = true;
    return 0;
  }
  if (exchange.head_done) return bytes;  // trailers
  if (line.starts_with("HTTP/")) {       // also after "100 Continue" and a proxy's answer
    exchange.head = {};
    exchange.head.status = status_of(line);
  } else {
    take_header(exchange.head, line);
  }
  return bytes;
}

size_t on_body_piece(char* data, size_t, size_t bytes, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  if (!begin_body(exchange)) return 0;
  if (!(*exchange.on_body)(bytes_of({data, bytes}))) exchange.ended = true;
  return exchange.ended ? 0 : bytes;
}

int on_tick(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& exchange = *static_cast<Exchange*>(user);
  return *exchange.stop && (*exchange.stop)() ? 1 : 0;
}

// The address that is connected to, not the one that a look-up named before.
curl_socket_t open_socket(void* user, curlsocktype, curl_sockaddr* address) {
  auto& exchange = *static_cast<Exchange*>(user);
  if (exchange.check_address && !is_public(&address->addr)) {
    exchange.address_refused = true;
    return CURL_SOCKET_BAD;
  }
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// Thread-safe: handles that rest are guarded by mutex_, and keep their connections.
class CurlTransfer : public Transfer {
 public:
  explicit CurlTransfer(CurlOptions options) : options_(std::move(options)) {
    static const CURLcode ready = ::curl_global_init(CURL_GLOBAL_DEFAULT);
    KVASIR_CHECK(ready == CURLE_OK);
  }
  ~CurlTransfer() override {
    for (CURL* handle : resting_) ::curl_easy_cleanup(handle);
  }

  Result<void> get(const TransferRequest& request, const OnHead& on_head,
                   const OnBody& on_body) override {
    CURL* handle = take_handle();
    Exchange exchange;
    exchange.stop = &request.stop;
    exchange.on_head = &on_head;
    exchange.on_body = &on_body;
    curl_slist* headers = set_up(handle, request, exchange);
    const CURLcode code = ::curl_easy_perform(handle);
    ::curl_slist_free_all(headers);
    // An answer without a body calls nothing back.
    if (code == CURLE_OK) begin_body(exchange);
    give_back(handle);
    return outcome(code, request, exchange);
  }

 private:
  CURL* take_handle() {
    const std::lock_guard lock(mutex_);
    if (resting_.empty()) {
      CURL* handle = ::curl_easy_init();
      KVASIR_CHECK(handle != nullptr);
      return handle;
    }
    CURL* handle = resting_.back();
    resting_.pop_back();
    return handle;
  }
  void give_back(CURL* handle) {
    ::curl_easy_reset(handle);  // keeps connections
    const std::lock_guard lock(mutex_);
    resting_.push_back(handle);
  }

  curl_slist* set_up(CURL* handle, const TransferRequest& request, Exchange& exchange) const {
    const std::string proxy =
        proxy_for(request.address, [](const char* name) { return std::getenv(name); });
    exchange.check_address = proxy.empty() && !options_.allow_private;

    ::curl_easy_setopt(handle, CURLOPT_URL, request.address.text.c_str());
    ::curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    ::curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
    ::curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    ::curl_easy_setopt(handle, CURLOPT_PROXY, proxy.c_str());
    ::curl_easy_setopt(handle, CURLOPT_NOPROXY, "");
    ::curl_easy_setopt(handle, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    ::curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    ::curl_easy_setopt(handle, CURLOPT_USERAGENT, "kvasir");
    ::curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT,
                       static_cast<long>(options_.connect_within_s));
    ::curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT,
                       static_cast<long>(options_.slow_bytes_per_s));
    ::curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.slow_within_s));
    ::curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, on_header_line);
    ::curl_easy_setopt(handle, CURLOPT_HEADERDATA, &exchange);
    ::curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_body_piece);
    ::curl_easy_setopt(handle, CURLOPT_WRITEDATA, &exchange);
    ::curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    ::curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, on_tick);
    ::curl_easy_setopt(handle, CURLOPT_XFERINFODATA, &exchange);
    ::curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    ::curl_easy_setopt(handle, CURLOPT_OPENSOCKETDATA, &exchange);

    curl_slist* headers = nullptr;
    const auto add = [&](const std::string& line) {
      headers = ::curl_slist_append(headers, line.c_str());
    };
    add("Accept-Encoding: identity");
    if (request.range)
      add(fmt::format("Range: bytes={}-{}", request.range->begin, request.range->end - 1));
    if (!request.if_range.empty()) add("If-Range: " + request.if_range);
    if (!request.token.empty()) add("Authorization: Bearer " + request.token);
    ::curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
    return headers;
  }

  static Result<void> outcome(CURLcode code, const TransferRequest& request,
                              const Exchange& exchange) {
    if (code == CURLE_OK || exchange.ended) return {};
    const std::string origin = origin_text(request.address);
    if (exchange.address_refused) {
      return Error::invalid("{} is not in the public internet", origin)
          .with_hint("--allow-private permits addresses of this machine and its network");
    }
    if (exchange.head_too_long) return Error::corrupt("{}: headers without end", origin);
    switch (code) {
      case CURLE_ABORTED_BY_CALLBACK:
        return Error::io("{}: stopped", origin);
      case CURLE_PARTIAL_FILE:
        return Error::io("{}: the answer ended before its end", origin);
      case CURLE_OPERATION_TIMEDOUT:
        return Error::io("{}: no answer, or too slow a one", origin);
      case CURLE_PEER_FAILED_VERIFICATION:
        return Error::untrusted("{}: its certificate is not one that this machine trusts", origin);
      default:
        return Error::io("{}: {}", origin, ::curl_easy_strerror(code));
    }
  }

  CurlOptions options_;
  std::mutex mutex_;
  std::vector<CURL*> resting_;
};

}  // namespace

std::unique_ptr<Transfer> make_curl_transfer(CurlOptions options) {
  return std::make_unique<CurlTransfer>(std::move(options));
}

}  // namespace kvasir::pull
