#include "wire/coverage_messages.h"

#include "wire/body.h"
#include "wire/frame.h"

namespace kvasir::wire {
namespace {

constexpr size_t kTermsBytes = 28, kLeasedBytes = 16, kCountBytes = 4;
static_assert(kCountBytes + kUnitsMax * kTermsBytes <= kControlBodyMax);

void write_unit(BodyWriter& body, const CoverageUnit& unit) {
  body.u16(unit.layer).u16(unit.expert_begin).u16(unit.expert_end).zeros(2);
}

CoverageUnit read_unit(BodyReader& body) {
  CoverageUnit unit;
  unit.layer = body.u16();
  unit.expert_begin = body.u16();
  unit.expert_end = body.u16();
  body.zeros(2);
  body.require(unit.expert_begin < unit.expert_end, "a unit is empty");
  return unit;
}

bool follows(const CoverageUnit& later, const CoverageUnit& earlier) {
  return later.layer > earlier.layer ||
         (later.layer == earlier.layer && later.expert_begin >= earlier.expert_end);
}

template <typename Item, typename WriteRest>
std::vector<std::byte> encode_units(const std::vector<Item>& items, const WriteRest& write_rest) {
  KVASIR_CHECK(!items.empty() && items.size() <= kUnitsMax);
  BodyWriter body;
  body.u16(static_cast<uint16_t>(items.size())).zeros(2);
  for (const Item& item : items) {
    write_unit(body, item.unit);
    write_rest(body, item);
  }
  return body.take();
}

template <typename Item, typename ReadRest>
Result<std::vector<Item>> decode_units(std::string_view what, ByteSpan bytes, size_t item_bytes,
                                       const ReadRest& read_rest) {
  BodyReader body(what, bytes);
  const uint16_t count = body.u16();
  body.zeros(2);
  body.require(count >= 1 && count <= kUnitsMax, "no units or too many");
  body.require(body.left() == count * item_bytes, "its length does not fit its count");
  if (!body.ok()) return body.error();
  std::vector<Item> items(count);
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].unit = read_unit(body);
    read_rest(body, items[i]);
    body.require(i == 0 || follows(items[i].unit, items[i - 1].unit),
                 "units overlap or are not in order");
  }
  KVASIR_TRY_VOID(body.finish());
  return items;
}

}  // namespace

std::vector<std::byte> encode_lease_terms(const std::vector<LeaseTerms>& terms) {
  return encode_units(terms, [](BodyWriter& body, const LeaseTerms& item) {
    body.u64(item.epoch).u64(item.price_micro_per_row).u32(item.expires_in_ms);
  });
}

Result<std::vector<LeaseTerms>> decode_lease_terms(ByteSpan body) {
  return decode_units<LeaseTerms>("lease terms", body, kTermsBytes,
                                  [](BodyReader& reader, LeaseTerms& item) {
                                    item.epoch = reader.u64();
                                    item.price_micro_per_row = reader.u64();
                                    item.expires_in_ms = reader.u32();
                                    reader.require(item.expires_in_ms > 0, "it has expired");
                                  });
}

std::vector<std::byte> encode_leased_units(const std::vector<LeasedUnit>& units) {
  return encode_units(units,
                      [](BodyWriter& body, const LeasedUnit& item) { body.u64(item.epoch); });
}

Result<std::vector<LeasedUnit>> decode_leased_units(ByteSpan body) {
  return decode_units<LeasedUnit>(
      "leased units", body, kLeasedBytes,
      [](BodyReader& reader, LeasedUnit& item) { item.epoch = reader.u64(); });
}

}  // namespace kvasir::wire
