// For tests: GGUF files put together byte by byte, so that they can be wrong in any way; and memory
// in which reading too far is noticed.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "gguf/header.h"

namespace kvasir::gguf {

// Appends raw values; every method returns *this, so that a file reads as one expression.
class TestFile {
 public:
  // Nothing at all.
  TestFile() = default;
  // Magic, version and counts.
  static TestFile with(uint64_t n_tensors, uint64_t n_keys, uint32_t version = 3) {
    TestFile file;
    return std::move(file.raw("GGUF").u32(version).u64(n_tensors).u64(n_keys));
  }

  template <typename T>
  TestFile& number(T value) {
    std::byte bytes[sizeof(T)];
    store_le(bytes, value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(T));
    return *this;
  }
  TestFile& u8(uint8_t value) { return number(value); }
  TestFile& u32(uint32_t value) { return number(value); }
  TestFile& u64(uint64_t value) { return number(value); }
  TestFile& f32(float value) { return number(value); }
  TestFile& raw(std::string_view text) {
    ByteSpan bytes = bytes_of(text);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  TestFile& string(std::string_view text) { return u64(text.size()).raw(text); }

  // The front of a key; the value follows.
  TestFile& key(std::string_view name, ValueType type) {
    return string(name).u32(static_cast<uint32_t>(type));
  }
  TestFile& key_u32(std::string_view name, uint32_t value) {
    return key(name, ValueType::kU32).u32(value);
  }
  TestFile& key_string(std::string_view name, std::string_view value) {
    return key(name, ValueType::kString).string(value);
  }
  // The front of an array; `count` elements follow.
  TestFile& key_array(std::string_view name, ValueType element_type, uint64_t count) {
    return key(name, ValueType::kArray).u32(static_cast<uint32_t>(element_type)).u64(count);
  }
  TestFile& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                   uint64_t offset) {
    string(name).u32(static_cast<uint32_t>(dims.size()));
    for (uint64_t dim : dims) u64(dim);
    return u32(type).u64(offset);
  }
  TestFile& zeros(size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }
  // Padding up to the alignment, then the data section.
  TestFile& data(size_t count, size_t alignment = 32) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment + count);
    return *this;
  }

  size_t size() const { return bytes_.size(); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// A copy whose last byte is followed by memory nobody may touch: by the guard zone of
// AddressSanitizer and, without it, by a page without access.
class GuardedCopy {
 public:
  explicit GuardedCopy(ByteSpan bytes) : size_(bytes.size()), heap_(new std::byte[bytes.size()]) {
    auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    size_t used = (size_ + page - 1) / page * page;
    mapped_ = used + page;
    void* memory =
        ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    KVASIR_CHECK(memory != MAP_FAILED);
    pages_ = static_cast<std::byte*>(memory);
    KVASIR_CHECK(::mprotect(pages_ + used, page, PROT_NONE) == 0);
    at_page_end_ = pages_ + used - size_;
    std::copy(bytes.begin(), bytes.end(), at_page_end_);
    std::copy(bytes.begin(), bytes.end(), heap_.get());
  }
  ~GuardedCopy() { ::munmap(pages_, mapped_); }
  GuardedCopy(const GuardedCopy&) = delete;
  GuardedCopy& operator=(const GuardedCopy&) = delete;

  ByteSpan before_guard_page() const { return {at_page_end_, size_}; }
  ByteSpan exact_heap_block() const { return {heap_.get(), size_}; }

 private:
  size_t size_;
  std::unique_ptr<std::byte[]> heap_;
  size_t mapped_ = 0;
  std::byte* pages_ = nullptr;
  std::byte* at_page_end_ = nullptr;
};

}  // namespace kvasir::gguf
