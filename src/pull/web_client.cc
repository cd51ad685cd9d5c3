#include "pull/web_client.h"

#include <algorithm>

#include "pull/ip_address.h"

namespace kvasir::pull {
namespace {

constexpr size_t kTokenBytesMax = 4096;

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool is_plain(const std::string& encoding, std::string_view also) {
  std::string lower = encoding;
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower.empty() || lower == "identity" || lower == also;
}

}  // namespace

Result<std::string> parse_token(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return Error::invalid("the token is empty");
  text = text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
  if (text.size() > kTokenBytesMax) return Error::invalid("the token is too long");
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; }))
    return Error::invalid("the token holds characters that no token has");
  return std::string(text);
}

Result<void> WebClient::check_allowed(const WebAddress& address) const {
  if (rules_.allow_private) return {};
  if (address.scheme != "https") {
    return Error::invalid("{}: only https:// is safe enough", origin_text(address))
        .with_hint("--allow-private permits http://, for addresses in your own network");
  }
  std::optional<bool> is_public = is_public_literal(address.host);
  if (address.host == "localhost" || address.host.ends_with(".localhost")) is_public = false;
  if (!is_public.value_or(true)) {
    return Error::invalid("{} is not in the public internet", origin_text(address))
        .with_hint("--allow-private permits addresses of this machine and its network");
  }
  return {};
}

Result<WebAnswer> WebClient::get(const WebRequest& request, const Transfer::OnHead& on_head,
                                 const Transfer::OnBody& on_body) const {
  WebAnswer answer;
  answer.address = request.address;
  for (int redirects = 0;; ++redirects) {
    KVASIR_TRY_VOID(check_allowed(answer.address));
    TransferRequest step{answer.address, request.range, request.if_range, "", {}};
    step.stop = [&] { return (rules_.stop && rules_.stop()) || (request.stop && request.stop()); };
    if (rules_.token_origin && same_origin(*rules_.token_origin, answer.address))
      step.token = rules_.token;
    std::optional<Error> refused;
    const auto take_head = [&](const TransferHead& head) {
      answer.head = head;
      // The text of a redirect is for browsers.
      if (is_redirect(head.status)) return false;
      if (!is_plain(head.content_encoding, "") || !is_plain(head.transfer_encoding, "chunked")) {
        refused = Error::unsupported("{}: the answer is encoded ({}), which was not asked for",
                                     origin_text(answer.address), "Content-Encoding");
        return false;
      }
      return on_head(head);
    };
    KVASIR_TRY_VOID(transfer_.get(step, take_head, on_body));
    if (refused) return *std::move(refused);
    if (!is_redirect(answer.head.status)) return answer;

    if (answer.linked_etag.empty()) answer.linked_etag = answer.head.linked_etag;
    if (redirects == kRedirectsMax)
      return Error::corrupt("{}: more than {} redirects", origin_text(request.address),
                            kRedirectsMax);
    auto next = resolve_web_address(answer.address, answer.head.location);
    if (!next) return std::move(next.error()).in(origin_text(answer.address) + ": redirect");
    if (answer.address.scheme == "https" && next->scheme != "https")
      return Error::invalid("{}: redirects from https:// to {}", origin_text(answer.address),
                            origin_text(*next));
    answer.address = *std::move(next);
  }
}

Result<std::string> WebClient::get_text(const WebAddress& address, size_t bytes_max,
                                        WebAnswer& answer) const {
  std::string text;
  bool too_long = false;
  const auto take = [&](ByteSpan piece) {
    too_long = piece.size() > bytes_max - text.size();
    if (!too_long) text += text_of(piece);
    return !too_long;
  };
  KVASIR_TRY(answer, get(
                         {address, std::nullopt, "", {}},
                         [](const TransferHead& head) { return head.status == 200; }, take));
  if (answer.head.status != 200) return error_of_status(answer.head.status, address);
  if (too_long)
    return Error::limit("{}: the answer is longer than {} bytes", origin_text(address), bytes_max);
  return text;
}

Error error_of_status(int status, const WebAddress& address) {
  const std::string place = origin_text(address) + address.path;
  if (status == 401 || status == 403) {
    return Error::not_found("{}: refused ({})", place, status)
        .with_hint(
            "a model that is not public needs a token: --token-file FILE, or "
            "KVASIR_HUB_TOKEN");
  }
  if (status == 404 || status == 410)
    return Error::not_found("{}: there is no such thing ({})", place, status);
  if (status == 429 || status >= 500) return Error::io("{}: busy or broken ({})", place, status);
  return Error::corrupt("{}: answered {}", place, status);
}

}  // namespace kvasir::pull
