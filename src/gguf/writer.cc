#include "gguf/writer.h"

#include <algorithm>
#include <bit>

#include "base/output_file.h"

namespace kvasir::gguf {
namespace {

constexpr uint64_t kPieceBytesMax = uint64_t{1} << 20;
constexpr std::string_view kAlignmentKey = "general.alignment";

void append(std::vector<std::byte>& out, ByteSpan bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <typename T>
void append_number(std::vector<std::byte>& out, T value) {
  std::byte bytes[sizeof(T)];
  store_le(bytes, value);
  append(out, bytes);
}

void append_string(std::vector<std::byte>& out, std::string_view text) {
  append_number(out, uint64_t{text.size()});
  append(out, bytes_of(text));
}

void append_type(std::vector<std::byte>& out, ValueType type) {
  append_number(out, static_cast<uint32_t>(type));
}

template <typename T>
void append_array(std::vector<std::byte>& out, ValueType element_type, std::span<const T> values) {
  append_type(out, element_type);
  append_number(out, uint64_t{values.size()});
  append(out, std::as_bytes(values));
}

uint64_t round_up(uint64_t value, uint64_t alignment) {
  auto rounded = checked_round_up(value, alignment);
  KVASIR_CHECK(rounded.has_value());
  return *rounded;
}

}  // namespace

void Writer::add_key(std::string_view key, ValueType type) {
  KVASIR_CHECK(key != kAlignmentKey);
  append_string(keys_, key);
  append_type(keys_, type);
  ++n_keys_;
}

void Writer::add_u8(std::string_view key, uint8_t value) {
  add_key(key, ValueType::kU8);
  append_number(keys_, value);
}
void Writer::add_u16(std::string_view key, uint16_t value) {
  add_key(key, ValueType::kU16);
  append_number(keys_, value);
}
void Writer::add_u32(std::string_view key, uint32_t value) {
  add_key(key, ValueType::kU32);
  append_number(keys_, value);
}
void Writer::add_u64(std::string_view key, uint64_t value) {
  add_key(key, ValueType::kU64);
  append_number(keys_, value);
}
void Writer::add_i32(std::string_view key, int32_t value) {
  add_key(key, ValueType::kI32);
  append_number(keys_, value);
}
void Writer::add_f32(std::string_view key, float value) {
  add_key(key, ValueType::kF32);
  append_number(keys_, value);
}
void Writer::add_bool(std::string_view key, bool value) {
  add_key(key, ValueType::kBool);
  append_number(keys_, static_cast<uint8_t>(value ? 1 : 0));
}
void Writer::add_string(std::string_view key, std::string_view value) {
  add_key(key, ValueType::kString);
  append_string(keys_, value);
}
void Writer::add_i32s(std::string_view key, std::span<const int32_t> values) {
  add_key(key, ValueType::kArray);
  append_array(keys_, ValueType::kI32, values);
}
void Writer::add_u32s(std::string_view key, std::span<const uint32_t> values) {
  add_key(key, ValueType::kArray);
  append_array(keys_, ValueType::kU32, values);
}
void Writer::add_f32s(std::string_view key, std::span<const float> values) {
  add_key(key, ValueType::kArray);
  append_array(keys_, ValueType::kF32, values);
}
void Writer::add_strings(std::string_view key, std::span<const std::string> values) {
  add_key(key, ValueType::kArray);
  append_type(keys_, ValueType::kString);
  append_number(keys_, uint64_t{values.size()});
  for (const std::string& value : values) append_string(keys_, value);
}

void Writer::add_value(const Value& value) {
  if (value.key == kAlignmentKey) return;
  add_key(value.key, value.type);
  if (value.type == ValueType::kArray) {
    append_type(keys_, value.element_type);
    append_number(keys_, value.count);
  } else if (value.type == ValueType::kString) {
    append_number(keys_, uint64_t{value.bytes.size()});
  }
  append(keys_, value.bytes);
}

void Writer::add_tensor(std::string name, TensorType type, std::vector<uint64_t> dims) {
  KVASIR_CHECK(!dims.empty() && dims.size() <= 4);
  KVASIR_CHECK(dims[0] % type_info(type).block_length == 0);
  std::optional<uint64_t> bytes = row_bytes(type, dims[0]);
  for (size_t i = 1; i < dims.size() && bytes; ++i) bytes = checked_mul(*bytes, dims[i]);
  KVASIR_CHECK(bytes && *bytes > 0);
  auto end = checked_add(next_offset_, *bytes);
  KVASIR_CHECK(end.has_value());
  tensors_.push_back({std::move(name), type, std::move(dims), next_offset_, *bytes});
  next_offset_ = round_up(*end, alignment_);
}

std::vector<std::byte> Writer::header() const {
  bool own_alignment = alignment_ != 32;
  std::vector<std::byte> out;
  append(out, bytes_of("GGUF"));
  append_number(out, uint32_t{3});
  append_number(out, uint64_t{tensors_.size()});
  append_number(out, n_keys_ + (own_alignment ? 1 : 0));
  if (own_alignment) {
    append_string(out, kAlignmentKey);
    append_type(out, ValueType::kU32);
    append_number(out, static_cast<uint32_t>(alignment_));
  }
  append(out, keys_);
  for (const Planned& tensor : tensors_) {
    append_string(out, tensor.name);
    append_number(out, static_cast<uint32_t>(tensor.dims.size()));
    for (uint64_t dim : tensor.dims) append_number(out, dim);
    append_number(out, static_cast<uint32_t>(tensor.type));
    append_number(out, tensor.offset);
  }
  out.resize(static_cast<size_t>(round_up(out.size(), alignment_)));
  return out;
}

uint64_t Writer::data_bytes() const {
  return next_offset_;
}

namespace {

// Every byte of the data section in order: `sink(bytes) -> Result<void>`.
template <typename Sink>
Result<void> write_data(const std::vector<Writer::Planned>& tensors, uint64_t alignment,
                        const Writer::Fill& fill, const Sink& sink) {
  std::vector<std::byte> piece;
  for (const Writer::Planned& tensor : tensors) {
    for (uint64_t offset = 0; offset < tensor.bytes; offset += piece.size()) {
      piece.resize(static_cast<size_t>(std::min(kPieceBytesMax, tensor.bytes - offset)));
      KVASIR_TRY_VOID(fill(tensor, offset, piece));
      KVASIR_TRY_VOID(sink(ByteSpan(piece)));
    }
    std::vector<std::byte> padding(
        static_cast<size_t>(round_up(tensor.bytes, alignment) - tensor.bytes));
    KVASIR_TRY_VOID(sink(ByteSpan(padding)));
  }
  return {};
}

}  // namespace

Result<void> Writer::write(const std::string& path, const Fill& fill) const {
  KVASIR_TRY(auto file, OutputFile::create(path));
  KVASIR_TRY_VOID(file.write(header()));
  KVASIR_TRY_VOID(
      write_data(tensors_, alignment_, fill, [&](ByteSpan bytes) { return file.write(bytes); }));
  return file.finish();
}

Result<void> Writer::write_sparse(const std::string& path) const {
  KVASIR_TRY(auto file, OutputFile::create(path));
  std::vector<std::byte> head = header();
  KVASIR_TRY_VOID(file.write(head));
  KVASIR_TRY_VOID(file.grow_to(head.size() + data_bytes()));
  return file.finish();
}

std::vector<std::byte> Writer::write_to_memory(const Fill& fill) const {
  std::vector<std::byte> out = header();
  auto written = write_data(tensors_, alignment_, fill, [&](ByteSpan bytes) -> Result<void> {
    append(out, bytes);
    return {};
  });
  KVASIR_CHECK(written.has_value());
  return out;
}

}  // namespace kvasir::gguf
