// Any text as a manifest: refused with a reason, or accepted in its only spelling, with every
// promise kept. And any bytes as a slice, since both come from the same strangers.
#include <cstdint>

#include "gguf/manifest_check.h"
#include "gguf/slice.h"

namespace {

using namespace kvasir;

void check_manifest_promises(const gguf::Manifest& manifest, std::string_view text) {
  KVASIR_CHECK(manifest.text() == text);
  const gguf::ExpertShape& shape = manifest.shape();
  KVASIR_CHECK(shape.n_experts > 0 && shape.group_size > 0);
  for (const gguf::ManifestEntry& entry : manifest.entries()) {
    const uint64_t part_bytes = manifest.parts().at(entry.part).bytes;
    KVASIR_CHECK(entry.bytes > 0 && entry.offset <= part_bytes &&
                 entry.bytes <= part_bytes - entry.offset);
  }
  for (gguf::UnitId unit : manifest.units()) {
    const size_t n_ranges = manifest.ranges(unit).size();
    KVASIR_CHECK(n_ranges == 2 || n_ranges == 3);
    KVASIR_CHECK(gguf::is_whole_groups(manifest.experts(unit), shape.group_size, shape.n_experts));
  }
  static_cast<void>(gguf::check_model_hash(manifest).has_value());
}

void check_slice_promises(const gguf::Slice& slice) {
  KVASIR_CHECK(slice.n_units() > 0 && slice.expert_count() >= slice.n_units());
  uint64_t sum = 0;
  for (const gguf::SliceLayer& layer : slice.layers) {
    KVASIR_CHECK(gguf::is_whole_groups(layer.experts, slice.group_size, slice.n_experts));
    for (const gguf::SliceMatrix& matrix : layer.matrices) {
      KVASIR_CHECK(matrix.data.size() == matrix.expert_bytes * layer.experts.count());
      sum += static_cast<uint8_t>(matrix.data.front()) + static_cast<uint8_t>(matrix.data.back());
    }
  }
  KVASIR_CHECK(sum <= uint64_t{slice.bytes()} * 255);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteSpan bytes = std::as_bytes(std::span(data, size));
  auto manifest = gguf::parse_manifest(text_of(bytes));
  if (manifest)
    check_manifest_promises(*manifest, text_of(bytes));
  else
    KVASIR_CHECK(!manifest.error().message.empty());
  auto header = gguf::parse_header(bytes);
  if (!header) return 0;
  auto slice = gguf::parse_slice(*header, bytes);
  if (slice)
    check_slice_promises(*slice);
  else
    KVASIR_CHECK(!slice.error().message.empty());
  return 0;
}
