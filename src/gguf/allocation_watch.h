// For tests: how much memory was asked for at once. The test executable counts every operator new.
#pragma once

#include <cstddef>

namespace kvasir::gguf {

// The largest single allocation of this thread since it was last set to 0.
extern thread_local size_t largest_allocation;

}  // namespace kvasir::gguf
