// How tensors are called in the file, where more than one source file must know it.
#pragma once

#include <string>
#include <string_view>

#include "model/hyper_parameters.h"

namespace kvasir::model {

// "blk.7."
inline std::string block_prefix(uint32_t block) {
  return fmt::format("blk.{}.", block);
}

// The norm before the experts, without ".weight".
inline std::string_view ffn_norm_name(Architecture architecture) {
  return architecture == Architecture::kQwen35Moe ? "post_attention_norm" : "ffn_norm";
}

}  // namespace kvasir::model
