// Names that come from outside and become files here. Anything doubtful is refused rather than
// changed. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kvasir::pull {

// One part of a path: 1 to 200 printable ASCII characters without / \ : * ? " < > | %, not
// beginning with '.', '-' or a space. So neither "..", nor a hidden file, nor a flag.
bool is_file_name(std::string_view name);
// Up to eight such parts between slashes.
bool is_file_path(std::string_view path);
// 64 lower-case hex digits.
bool is_sha256(std::string_view text);

// "model-Q4_K_M-00002-of-00003.gguf"
struct SplitName {
  std::string prefix;  // with folders, if the name had some
  uint32_t part = 0;   // from 1
  uint32_t count = 0;

  std::string of(uint32_t other) const;
};
inline constexpr uint32_t kSplitPartsMax = 1000;
// Nothing if the name is none of a split file.
std::optional<SplitName> parse_split_name(std::string_view name);

// What the name says of the weights: "Q4_K_M", "UD-Q2_K_XL", "BF16"; empty if nothing.
std::string quantization_of(std::string_view name);

}  // namespace kvasir::pull
