#include "gguf/allocation_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <vector>

thread_local size_t kvasir::gguf::largest_allocation = 0;

void* operator new(size_t bytes) {
  using kvasir::gguf::largest_allocation;
  largest_allocation = std::max(largest_allocation, bytes);
  void* memory = std::malloc(bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {  // what sorting asks for
  return operator new(bytes);
}
// The compiler may inline these and not the `new` above, and then takes the pair for a mistake.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace kvasir::gguf {
namespace {

TEST(AllocationWatch, SeesTheLargestVector) {
  largest_allocation = 0;
  std::vector<char> small(100);
  std::vector<char> large(100'000);
  EXPECT_EQ(largest_allocation, 100'000u);
}

}  // namespace
}  // namespace kvasir::gguf
