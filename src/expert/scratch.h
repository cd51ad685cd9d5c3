// Scratch buffers that grow to what the largest call needed.
#pragma once

#include <cstddef>
#include <vector>

namespace kvasir::expert {

// Makes room for `size` values. Old contents are lost when the buffer grows, so that growing never
// copies, nor takes more memory than asked for.
template <typename T>
void grow_scratch(std::vector<T>& buffer, size_t size) {
  if (buffer.size() >= size) return;
  buffer = {};
  buffer.resize(size);
}

}  // namespace kvasir::expert
