// Writes GGUF v3 files: header first, then tensors one after the other, each padded to the
// alignment. A failure never costs the file that was there before.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "gguf/metadata.h"
#include "gguf/types.h"

namespace kvasir::gguf {

// Collects metadata and tensor shapes, then writes. One thread. Every key and tensor name may be
// added once. general.alignment is the writer's own key: written if it is not 32, never to be
// added.
class Writer {
 public:
  explicit Writer(uint64_t alignment = 32) : alignment_(alignment) {}

  void add_u8(std::string_view key, uint8_t value);
  void add_u16(std::string_view key, uint16_t value);
  void add_u32(std::string_view key, uint32_t value);
  void add_u64(std::string_view key, uint64_t value);
  void add_i32(std::string_view key, int32_t value);
  void add_f32(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_string(std::string_view key, std::string_view value);
  void add_i32s(std::string_view key, std::span<const int32_t> values);
  void add_u32s(std::string_view key, std::span<const uint32_t> values);
  void add_f32s(std::string_view key, std::span<const float> values);
  void add_strings(std::string_view key, std::span<const std::string> values);
  // A value of another file, as it is there; general.alignment is passed over.
  void add_value(const Value& value);

  // Declares a tensor; its bytes follow in the same order when writing. dims in ne order.
  void add_tensor(std::string name, TensorType type, std::vector<uint64_t> dims);

  struct Planned {
    std::string name;
    TensorType type;
    std::vector<uint64_t> dims;
    uint64_t offset;  // relative to the data section
    uint64_t bytes;
  };
  const std::vector<Planned>& tensors() const { return tensors_; }

  // The header up to the data section, padding included.
  std::vector<std::byte> header() const;
  uint64_t data_bytes() const;  // padded size of the data section

  // Writes the file, asking for the bytes of each tensor in order, piece by piece: `fill(tensor,
  // offset in tensor, out)` writes out.size() bytes. Pieces are at most 1 MiB. An error of `fill`
  // ends the writing; what was at `path` stays if this fails.
  using Fill =
      std::function<Result<void>(const Planned&, uint64_t offset, std::span<std::byte> out)>;
  Result<void> write(const std::string& path, const Fill& fill) const;
  // Header only; the data section is a hole that reads as zeros.
  Result<void> write_sparse(const std::string& path) const;
  // The whole file in memory, for tests; `fill` must not fail.
  std::vector<std::byte> write_to_memory(const Fill& fill) const;

 private:
  void add_key(std::string_view key, ValueType type);

  uint64_t alignment_;
  uint64_t n_keys_ = 0;
  std::vector<std::byte> keys_;  // encoded key-value pairs
  std::vector<Planned> tensors_;
  uint64_t next_offset_ = 0;
};

}  // namespace kvasir::gguf
