#include "pull/remote_model.h"

#include <charconv>

#include "base/sha256.h"
#include "gguf/text_check.h"
#include "pull/file_names.h"

namespace kvasir::pull {
namespace {

bool take_number(std::string_view& text, uint64_t& number) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

// The same address with another last part of its path.
Result<WebAddress> sibling(const WebAddress& address, const std::string& name) {
  const size_t query = address.text.find('?');
  return resolve_web_address(
      address, encoded_path(name) +
                   (query == std::string::npos ? std::string() : address.text.substr(query)));
}

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view text) {
  uint64_t first = 0, last = 0, total = 0;
  if (!take(text, "bytes ") || !take_number(text, first) || !take(text, "-") ||
      !take_number(text, last) || !take(text, "/") || !take_number(text, total) || !text.empty())
    return std::nullopt;
  if (first > last || last >= total) return std::nullopt;
  return ContentRange{{first, last + 1}, total};
}

Result<Located> locate(const WebClient& web, const WebAddress& address) {
  const std::string place = origin_text(address) + address.path;
  KVASIR_TRY(const WebAnswer answer,
             web.get(
                 {address, ByteRange{0, 1}, "", {}}, [](const TransferHead&) { return false; },
                 [](ByteSpan) { return false; }));
  const TransferHead& head = answer.head;
  Located located;
  located.address = answer.address;
  if (head.status == 206) {
    const auto range = parse_content_range(head.content_range);
    if (!range || range->range.begin != 0 || range->range.end != 1)
      return Error::corrupt("{}: was asked for its first byte and sends '{}'", place,
                            gguf::printable(head.content_range));
    located.bytes = range->total;
  } else if (head.status == 200) {
    if (!head.content_length)
      return Error::unsupported("{}: the server neither sends ranges nor says how long it is",
                                place);
    located.bytes = *head.content_length;
    located.has_ranges = false;
  } else if (head.status == 416) {
    return Error::corrupt("{}: the file is empty", place);
  } else {
    return error_of_status(head.status, address);
  }
  if (located.bytes == 0 || located.bytes > kFileBytesMax)
    return Error::corrupt("{}: no model has {} bytes", place, located.bytes);
  // Two kinds of name for one state of a file. The prefix keeps them apart.
  located.etag = !head.etag.empty()            ? head.etag
                 : !head.last_modified.empty() ? "changed " + head.last_modified
                                               : "";
  std::string linked = answer.linked_etag;
  if (linked.size() >= 2 && linked.front() == '"' && linked.back() == '"')
    linked = linked.substr(1, linked.size() - 2);
  if (is_sha256(linked)) located.sha256 = linked;
  if (located.etag.empty() && located.sha256.empty())
    return Error::unsupported(
        "{}: the server sends neither ETag nor Last-Modified, so nobody "
        "could tell if the file changes on the way",
        place);
  return located;
}

Result<RemoteModel> find_web_model(const WebClient& web, const std::string& url) {
  KVASIR_TRY(const WebAddress address, parse_web_address(url));
  const std::string name = last_path_part(address);
  if (!is_file_name(name) || !name.ends_with(".gguf"))
    return Error::invalid("{}: the address of a file ends in NAME.gguf", address.text);
  RemoteModel model;
  model.origin = origin_text(address);
  model.quantization = quantization_of(name);
  const auto split = parse_split_name(name);
  const std::string first = split ? split->of(1) : name;
  KVASIR_TRY(const WebAddress first_address, sibling(address, first));
  model.reference = first_address.text;
  model.folder =
      "web/" + origin_folder(address) + "/" + sha256_hex(bytes_of(model.reference)).substr(0, 16);
  for (uint32_t part = 1; part <= (split ? split->count : 1); ++part) {
    const std::string part_name = split ? split->of(part) : name;
    KVASIR_TRY(const WebAddress part_address, sibling(address, part_name));
    KVASIR_TRY(const Located located, locate(web, part_address));
    model.files.push_back({part_name, part_address, located.bytes, located.sha256});
  }
  return model;
}

}  // namespace kvasir::pull
