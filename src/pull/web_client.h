// GET with the rules of a careful visitor: which addresses, how many redirects, and who sees the
// token.
#pragma once

#include <optional>
#include <string>

#include "pull/transfer.h"

namespace kvasir::pull {

inline constexpr int kRedirectsMax = 5;

struct WebRules {
  // http:// and addresses of this machine and its network, too. Otherwise https:// only.
  bool allow_private = false;
  // Sent to its origin alone, wherever redirects lead.
  std::string token;
  std::optional<WebAddress> token_origin;
  std::function<bool()> stop;  // asked often while a request waits; may be empty
};

// A token as it may stand in a header: 1 to 4,096 visible ASCII characters. Trims white space.
Result<std::string> parse_token(std::string_view text);

struct WebRequest {
  WebAddress address;
  std::optional<ByteRange> range;
  std::string if_range;
  std::function<bool()> stop;  // beside the rules'
};

struct WebAnswer {
  TransferHead head;   // of the last answer
  WebAddress address;  // that gave it
  // What the first of several redirects said of the file, if one did.
  std::string linked_etag;
};

// Thread-safe, as its transfer is.
class WebClient {
 public:
  // `transfer` outlives it.
  WebClient(Transfer& transfer, WebRules rules) : transfer_(transfer), rules_(std::move(rules)) {}

  // Any status that is no redirect is an answer. `on_head` as for Transfer::get; it is not called
  // for redirects. kCorrupt for a redirect that leads nowhere, kInvalid for one that breaks the
  // rules, kUnsupported for encodings nobody asked for.
  Result<WebAnswer> get(const WebRequest& request, const Transfer::OnHead& on_head,
                        const Transfer::OnBody& on_body) const;
  // A whole small answer of status 200; errors as error_of_status() gives them.
  Result<std::string> get_text(const WebAddress& address, size_t bytes_max,
                               WebAnswer& answer) const;

  // kInvalid if the rules forbid to go there.
  Result<void> check_allowed(const WebAddress& address) const;

 private:
  Transfer& transfer_;
  WebRules rules_;
};

// What an answer that is neither 2xx nor a redirect means: kIo where asking again may help.
Error error_of_status(int status, const WebAddress& address);

}  // namespace kvasir::pull
