#include "worker/own_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace kvasir::worker {

Result<std::shared_ptr<OwnMemory>> OwnMemory::allocate(size_t bytes) {
  KVASIR_CHECK(bytes > 0);
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return Error::limit("no memory for {} bytes of experts: {}", bytes, std::strerror(errno));
  return std::shared_ptr<OwnMemory>(new OwnMemory(static_cast<std::byte*>(data), bytes));
}

OwnMemory::~OwnMemory() {
  ::munmap(data_, size_);
}

bool OwnMemory::lock() {
  return ::mlock(data_, size_) == 0;
}

}  // namespace kvasir::worker
