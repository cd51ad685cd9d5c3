// How much a chat template may use. Templates come with models, from strangers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvasir::text {

struct TemplateLimits {
  // Every value, loop turn and output costs about one. A conversation of 1,000 messages with tools
  // takes about 60,000 with the largest published templates.
  uint64_t steps_max = 1'000'000;
  // Of the whole output and of each string on the way, about 250,000 tokens.
  size_t text_bytes_max = 1024 * 1024;
  size_t items_max =
      100'000;  // of a list, a dict or a range; Jinja's sandbox has the same for ranges
  // Of macros in macros and expressions in expressions; each takes about 1 KiB of stack (4 KiB
  // under sanitizers).
  size_t depth_max = 500;
};

}  // namespace kvasir::text
