// What downloads read from strangers or from a disk that lost its power: references, listings of a
// hub, journals, records, headers of answers. Refused with a reason, or accepted with every promise
// kept.
#include <cstdint>

#include "pull/file_names.h"
#include "pull/hub.h"
#include "pull/journal.h"
#include "pull/model_cache.h"

namespace {

using namespace kvasir;
using namespace kvasir::pull;

void check_reference(std::string_view text) {
  const auto reference = parse_model_reference(text);
  if (!reference) {
    KVASIR_CHECK(!reference.error().message.empty());
    return;
  }
  if (reference->kind == ModelReference::Kind::kPath) return;
  const auto again = parse_model_reference(reference_text(*reference));
  KVASIR_CHECK(again && reference_text(*again) == reference_text(*reference));
}

void check_listing(std::string_view text) {
  const auto files = parse_hub_listing(text);
  if (!files) return;
  for (const HubFile& file : *files) {
    KVASIR_CHECK(is_file_path(file.path) && file.bytes > 0 && file.bytes <= kFileBytesMax);
    KVASIR_CHECK(file.sha256.empty() || is_sha256(file.sha256));
  }
  for (const HubModel& model : group_models(*files)) {
    KVASIR_CHECK(!model.files.empty() && model.files.size() <= model.parts);
    static_cast<void>(choose_model({model}, {"o", "r", model.quantization, "main"}).has_value());
  }
}

void check_journal(std::string_view text) {
  const auto journal = parse_journal(text);
  if (!journal) return;
  KVASIR_CHECK(journal->bytes() <= journal->head.bytes);
  for (const auto& [index, hash] : journal->ranges)
    KVASIR_CHECK(index < journal->head.ranges() && is_sha256(hash));
  const auto again = parse_journal(journal_text(*journal));
  KVASIR_CHECK(again && !again->damaged && again->ranges == journal->ranges);
}

void check_record(std::string_view text) {
  const auto record = parse_record(text);
  if (!record) return;
  KVASIR_CHECK(record_text(*record) == text);
  for (const RecordedFile& file : record->files) KVASIR_CHECK(is_file_name(file.name));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_reference(text);
  check_listing(text);
  check_journal(text);
  check_record(text);
  if (const auto range = parse_content_range(text))
    KVASIR_CHECK(range->range.begin < range->range.end && range->range.end <= range->total);
  static_cast<void>(next_page(text).size());
  return 0;
}
