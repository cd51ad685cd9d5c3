// Memory of its own for weights that were read from a file: whole pages, kept out of the swap where
// the system allows it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/error.h"

namespace kvasir::worker {

class OwnMemory {
 public:
  // Zeros. kLimit if the system gives no more.
  static Result<std::shared_ptr<OwnMemory>> allocate(size_t bytes);
  ~OwnMemory();
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

  std::span<std::byte> bytes() { return {data_, size_}; }
  // False if the system does not lock so much (`ulimit -l`); the memory is good all the same.
  bool lock();

 private:
  OwnMemory(std::byte* data, size_t size) : data_(data), size_(size) {}

  std::byte* data_;
  size_t size_;
};

}  // namespace kvasir::worker
