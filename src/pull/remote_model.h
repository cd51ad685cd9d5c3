// A model that could be fetched: names, sizes and addresses of its files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pull/web_client.h"

namespace kvasir::pull {

struct RemoteFile {
  std::string name;  // here, checked by is_file_name()
  WebAddress address;
  uint64_t bytes = 0;
  std::string sha256;  // of the whole file; empty: nobody said
};

struct RemoteModel {
  std::string reference;     // complete: quantisation or file included
  std::string origin;        // "https://huggingface.co"
  std::string folder;        // where it belongs in the cache, checked by is_file_path()
  std::string quantization;  // may be empty
  std::vector<RemoteFile> files;

  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const RemoteFile& file : files) sum += file.bytes;
    return sum;
  }
};

// Larger is a mistake or a lie; sizes are summed without overflow.
inline constexpr uint64_t kFileBytesMax = uint64_t{16} << 40;

// Where a file's bytes are now, found by asking for its first byte.
struct Located {
  WebAddress address;  // behind all redirects
  std::string etag;    // or its time of change; what must not differ from one answer to the next
  std::string sha256;  // if a redirect named it
  uint64_t bytes = 0;
  bool has_ranges = true;  // false: answers with the whole file, whatever is asked
};
// kUnsupported if nothing tells one state of the file from another.
Result<Located> locate(const WebClient& web, const WebAddress& address);

// "bytes 0-9/100": nothing if the text is anything else, or contradicts itself.
struct ContentRange {
  ByteRange range;
  uint64_t total = 0;
};
std::optional<ContentRange> parse_content_range(std::string_view text);

// A file by its address, with all parts if its name says that it is one of several.
Result<RemoteModel> find_web_model(const WebClient& web, const std::string& url);

}  // namespace kvasir::pull
