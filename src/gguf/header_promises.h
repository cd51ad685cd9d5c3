// What a header that parse_header() accepted promises, as one check for tests and the fuzzer: every
// accessor answers, all extents lie inside the file without overlap, and written again it reads the
// same. Stops the program where a promise is broken.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "gguf/header.h"
#include "gguf/text_check.h"
#include "gguf/writer.h"

namespace kvasir::gguf {

inline bool same_bytes(ByteSpan a, ByteSpan b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// Through every getter, whatever its type. Getters that both answer must agree.
inline void check_value_promises(const Metadata& metadata, const Value& value) {
  KVASIR_CHECK(is_text(value.key));
  KVASIR_CHECK(metadata.find(value.key) == &value);
  auto unsigned_number = metadata.get_uint(value.key);
  auto signed_number = metadata.get_int(value.key);
  if (unsigned_number && signed_number)
    KVASIR_CHECK(static_cast<uint64_t>(*signed_number) == *unsigned_number);
  auto real = metadata.get_float(value.key);
  KVASIR_CHECK(!(real && unsigned_number));
  auto truth = metadata.get_bool(value.key);
  if (truth) KVASIR_CHECK(unsigned_number && *unsigned_number == (*truth ? 1u : 0u));
  auto text = metadata.get_string(value.key);
  if (text) KVASIR_CHECK(is_text(*text));
  KVASIR_CHECK(metadata.get_uint_or(value.key, 1).has_value() == unsigned_number.has_value());
  KVASIR_CHECK(metadata.get_float_or(value.key, 1).has_value() == real.has_value());
  KVASIR_CHECK(metadata.get_bool_or(value.key, true).has_value() == truth.has_value());
  KVASIR_CHECK(metadata.get_string_or(value.key, "").has_value() == text.has_value());

  auto ints = metadata.get_ints(value.key);
  if (ints) KVASIR_CHECK(ints->size() == value.count);
  auto floats = metadata.get_floats(value.key);
  if (floats) KVASIR_CHECK(floats->size() == value.count);
  auto strings = metadata.get_strings(value.key);
  if (strings) {
    KVASIR_CHECK(strings->size() == value.count);
    size_t total = 0;
    for (std::string_view string : *strings) total += string.size();
    KVASIR_CHECK(total <= value.bytes.size());
  }
}

inline void check_tensor_promises(const Header& header, ByteSpan file) {
  std::vector<std::pair<uint64_t, uint64_t>> extents;
  for (const TensorInfo& tensor : header.tensors) {
    KVASIR_CHECK(is_text(tensor.name));
    KVASIR_CHECK(tensor.offset >= header.data_offset && tensor.bytes > 0);
    KVASIR_CHECK(tensor.offset <= file.size() && tensor.bytes <= file.size() - tensor.offset);
    uint64_t rows = tensor.dims[1] * tensor.dims[2] * tensor.dims[3];
    KVASIR_CHECK(tensor.bytes == row_bytes(tensor.type, tensor.dims[0]) * rows);
    extents.emplace_back(tensor.offset, tensor.offset + tensor.bytes);
  }
  std::sort(extents.begin(), extents.end());
  for (size_t i = 1; i < extents.size(); ++i)
    KVASIR_CHECK(extents[i - 1].second <= extents[i].first);
}

// The same keys and tensors, written by Writer. general.alignment is the writer's business.
inline std::vector<std::byte> write_again(const Header& header, ByteSpan file) {
  Writer writer(header.alignment);
  for (const Value& value : header.metadata.values()) writer.add_value(value);
  for (const TensorInfo& tensor : header.tensors)
    writer.add_tensor(tensor.name, tensor.type,
                      {tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims});
  size_t current = 0;
  return writer.write_to_memory([&](const Writer::Planned& planned, uint64_t offset,
                                    std::span<std::byte> out) -> Result<void> {
    while (header.tensors[current].name != planned.name) ++current;
    ByteSpan from = file.subspan(header.tensors[current].offset + offset, out.size());
    std::copy(from.begin(), from.end(), out.begin());
    return {};
  });
}

inline void check_same_content(const Header& before, ByteSpan before_file, const Header& after,
                               ByteSpan after_file) {
  KVASIR_CHECK(after.alignment == before.alignment);
  for (const Value& value : before.metadata.values()) {
    if (value.key == "general.alignment") continue;
    const Value* copy = after.metadata.find(value.key);
    KVASIR_CHECK(copy != nullptr && copy->type == value.type && copy->count == value.count);
    KVASIR_CHECK(copy->element_type == value.element_type && same_bytes(copy->bytes, value.bytes));
  }
  KVASIR_CHECK(after.tensors.size() == before.tensors.size());
  for (size_t i = 0; i < before.tensors.size(); ++i) {
    const TensorInfo& old = before.tensors[i];
    const TensorInfo& now = after.tensors[i];
    KVASIR_CHECK(old.name == now.name && old.type == now.type);
    KVASIR_CHECK(old.dims == now.dims && old.n_dims == now.n_dims && old.bytes == now.bytes);
    KVASIR_CHECK(same_bytes(before_file.subspan(old.offset, old.bytes),
                            after_file.subspan(now.offset, now.bytes)));
  }
}

inline void check_header_promises(const Header& header, ByteSpan file) {
  for (const Value& value : header.metadata.values()) check_value_promises(header.metadata, value);
  check_tensor_promises(header, file);
  std::vector<std::byte> again = write_again(header, file);
  auto parsed = parse_header(again);
  KVASIR_CHECK(parsed.has_value());
  check_same_content(header, file, *parsed, again);
}

}  // namespace kvasir::gguf
