#include "model/random_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace kvasir::model {
namespace {

using gguf::TensorType;

// Weights come in groups with a seed of their own, so that a piece can start anywhere. Smaller:
// more time goes into seeding. Larger: into the parts of a group that a piece does not want.
constexpr size_t kGroupBytes = size_t{16} * 1024;

// Steele, Lea, Flood: "Fast splittable pseudorandom number generators" (2014).
uint64_t split_mix(uint64_t& state) {
  state += 0x9E3779B97F4A7C15;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// xoshiro256++ (Blackman, Vigna 2019).
class Random {
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t& word : state_) word = split_mix(seed);
  }
  uint64_t next() {
    const uint64_t result = rotate(state_[0] + state_[3], 23) + state_[0];
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

 private:
  static uint64_t rotate(uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }
  std::array<uint64_t, 4> state_{};
};

// out = f(random word), eight bytes at a time.
template <typename F>
void fill_words(Random& random, std::span<std::byte> out, const F& f) {
  size_t i = 0;
  for (; i + 8 <= out.size(); i += 8) store_le(out.data() + i, f(random.next()));
  if (i == out.size()) return;
  std::byte last[8];
  store_le(last, f(random.next()));
  std::memcpy(out.data() + i, last, out.size() - i);
}

// IEEE half precision, nearest even. |x| < 65504.
uint16_t half_bits(double x) {
  const uint16_t sign = x < 0 ? 0x8000 : 0;
  int exponent = 0;
  std::frexp(x, &exponent);                      // |x| in [2^(exponent-1), 2^exponent)
  const int ulp = std::max(exponent - 11, -24);  // of the result, as a power of two
  const auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(std::fabs(x), -ulp)));
  // `units` counts from 2^10 on in a normal number; a carry into the next exponent comes out right.
  return static_cast<uint16_t>(sign | (static_cast<uint32_t>(ulp + 24) * 0x400 + units));
}

// What a type's block looks like besides its evenly random quants. With a block scale of 1 and a
// minimum of `min_per_scale`, the values have mean 0 and a standard deviation of `unit_spread`:
// the square root of the mean squares of quant and sub-block scale.
struct BlockScheme {
  TensorType type;
  size_t scale_offset;  // of the f16 block scale
  bool has_min;         // an f16 minimum follows it
  double min_per_scale;
  double unit_spread;
};

// Mean squares: of k-bit quants around their middle (4^k - 1) / 12; the same shifted by half a step
// + 1/4; of a 6-bit scale 1333.5, less 32 341.5; of a 4-bit scale 77.5; of the IQ4 table 4548.
constexpr double kMeanSquareIq4 = 4548.0;
const std::array kSchemes = {
    BlockScheme{TensorType::kQ4_0, 0, false, 0.0, std::sqrt(21.5)},
    BlockScheme{TensorType::kQ4_1, 0, true, -7.5, std::sqrt(21.25)},
    BlockScheme{TensorType::kQ5_0, 0, false, 0.0, std::sqrt(85.5)},
    BlockScheme{TensorType::kQ5_1, 0, true, -15.5, std::sqrt(85.25)},
    BlockScheme{TensorType::kQ8_0, 0, false, 0.0, std::sqrt(5460.1)},
    BlockScheme{TensorType::kIQ4_NL, 0, false, 0.0, std::sqrt(kMeanSquareIq4)},
    BlockScheme{TensorType::kQ2_K, 80, true, 1.5, std::sqrt(77.5 * 1.25)},
    BlockScheme{TensorType::kQ3_K, 108, false, 0.0, std::sqrt(341.5 * 5.5)},
    BlockScheme{TensorType::kQ4_K, 0, true, 7.5, std::sqrt(1333.5 * 21.25)},
    BlockScheme{TensorType::kQ5_K, 0, true, 15.5, std::sqrt(1333.5 * 85.25)},
    BlockScheme{TensorType::kQ6_K, 208, false, 0.0, std::sqrt(5461.5 * 341.5)},
    BlockScheme{TensorType::kIQ4_XS, 0, false, 0.0, std::sqrt(341.5 * kMeanSquareIq4)},
};

const BlockScheme* find_scheme(TensorType type) {
  for (const BlockScheme& scheme : kSchemes)
    if (scheme.type == type) return &scheme;
  return nullptr;
}

// Block scales from 0.75 to 1.25 of the nominal one. Types without a minimum have quants whose mean
// is half a step off 0; a random sign of the scale takes that out of the matrix.
struct ScaleTable {
  struct Entry {
    uint16_t scale;
    uint16_t min;
  };
  std::array<Entry, 32> entries{};

  ScaleTable(const BlockScheme& scheme, double spread) {
    for (size_t i = 0; i < entries.size(); ++i) {
      const double factor = 0.75 + static_cast<double>(i % 16) / 30.0;
      const double sign = i >= 16 && !scheme.has_min ? -1.0 : 1.0;
      const double scale = sign * factor * spread / scheme.unit_spread;
      entries[i] = {half_bits(scale), half_bits(scale * scheme.min_per_scale)};
    }
  }
};

// Q8_0: a quantiser makes -127..127, so bytes of 0x80 become 0x81.
uint64_t without_minus_128(uint64_t word) {
  constexpr uint64_t kLow7 = 0x7F7F7F7F7F7F7F7F;
  const uint64_t other = word ^ 0x8080808080808080;
  const uint64_t is_zero = ~(((other & kLow7) + kLow7) | other | kLow7);  // 0x80 where other is 0
  return word | (is_zero >> 7);
}

// Sub-block minimums equal to the scales, so that every sub-block has mean 0.
void pair_6_bit_scales(std::byte* packed) {
  std::memcpy(packed + 4, packed, 4);
  for (size_t j = 8; j < 12; ++j) packed[j] = (packed[j] & std::byte{15}) | (packed[j] << 4);
}
void pair_4_bit_scales(std::byte* packed) {
  for (size_t j = 0; j < 16; ++j) packed[j] = (packed[j] & std::byte{15}) | (packed[j] << 4);
}

void fill_quantised(const BlockScheme& scheme, const ScaleTable& table, Random& random,
                    std::span<std::byte> blocks) {
  if (scheme.type == TensorType::kQ8_0)
    fill_words(random, blocks, without_minus_128);
  else
    fill_words(random, blocks, [](uint64_t word) { return word; });
  const size_t block_bytes = gguf::type_info(scheme.type).block_bytes;
  for (size_t at = 0; at < blocks.size(); at += block_bytes) {
    std::byte* block = blocks.data() + at;
    if (scheme.type == TensorType::kQ4_K || scheme.type == TensorType::kQ5_K)
      pair_6_bit_scales(block + 4);
    else if (scheme.type == TensorType::kQ2_K)
      pair_4_bit_scales(block);
    // The scale's own random byte chooses it.
    std::byte* scale = block + scheme.scale_offset;
    const auto& entry = table.entries[std::to_integer<size_t>(*scale) % table.entries.size()];
    store_le(scale, entry.scale);
    if (scheme.has_min) store_le(scale + 2, entry.min);
  }
}

// MXFP4: a power of two as scale, or half of it. 34.25 is the mean square of the 16 values,
// 5/8 that of the factors 1 and 1/2; the stored exponent is 128 more than the value's.
void fill_mxfp4(double spread, Random& random, std::span<std::byte> blocks) {
  const double exponent = std::log2(spread / std::sqrt(34.25 * 0.625));
  const int top = 128 + static_cast<int>(std::lround(exponent));
  fill_words(random, blocks, [](uint64_t word) { return word; });
  for (size_t at = 0; at < blocks.size(); at += gguf::type_info(TensorType::kMXFP4).block_bytes)
    blocks[at] = static_cast<std::byte>(top - std::to_integer<int>(blocks[at] & std::byte{1}));
}

// Floats of any width: random sign and mantissa, and one of the four exponents up to `top`, several
// values in one word. The mean square is 7/3 (mantissa) times 85/256 (exponents).
struct FloatLayout {
  TensorType type;
  int bits;
  int mantissa_bits;
  int bias;
};
constexpr std::array kFloatLayouts = {FloatLayout{TensorType::kF32, 32, 23, 127},
                                      FloatLayout{TensorType::kF16, 16, 10, 15},
                                      FloatLayout{TensorType::kBF16, 16, 7, 127}};

const FloatLayout* find_float_layout(TensorType type) {
  for (const FloatLayout& layout : kFloatLayouts)
    if (layout.type == type) return &layout;
  return nullptr;
}

void fill_floats(const FloatLayout& layout, double spread, Random& random,
                 std::span<std::byte> values) {
  const double exponent = std::log2(spread / std::sqrt(7.0 / 3.0 * 85.0 / 256.0));
  const auto top = static_cast<uint64_t>(layout.bias + std::lround(exponent));
  const uint64_t each = layout.bits == 32 ? 0x0000000100000001 : 0x0001000100010001;
  const uint64_t sign = each << (layout.bits - 1);
  const uint64_t mantissa = each * ((uint64_t{1} << layout.mantissa_bits) - 1);
  const uint64_t steps = each * (uint64_t{3} << layout.mantissa_bits);  // 0..3 below the top
  const uint64_t tops = each * (top << layout.mantissa_bits);
  fill_words(random, values,
             [=](uint64_t word) { return (word & (sign | mantissa)) | (tops - (word & steps)); });
}

}  // namespace

bool can_fill(TensorType type) {
  return find_scheme(type) != nullptr || find_float_layout(type) != nullptr ||
         type == TensorType::kMXFP4;
}

void fill_random_weights(TensorType type, float spread, uint64_t seed, uint64_t offset,
                         std::span<std::byte> out) {
  KVASIR_CHECK(can_fill(type));
  KVASIR_CHECK(spread >= 0x1p-10F && spread <= 0x1p4F);
  const auto wide_spread = static_cast<double>(spread);
  const BlockScheme* scheme = find_scheme(type);
  const FloatLayout* floats = find_float_layout(type);
  const ScaleTable table(scheme != nullptr ? *scheme : kSchemes.front(), wide_spread);
  const auto fill_group = [&](uint64_t group, std::span<std::byte> bytes) {
    Random random(seed + group * 0xD1342543DE82EF95);
    if (scheme != nullptr)
      fill_quantised(*scheme, table, random, bytes);
    else if (floats != nullptr)
      fill_floats(*floats, wide_spread, random, bytes);
    else
      fill_mxfp4(wide_spread, random, bytes);
  };

  const size_t block_bytes = gguf::type_info(type).block_bytes;
  const size_t group_bytes = kGroupBytes / block_bytes * block_bytes;
  std::array<std::byte, kGroupBytes> whole;
  while (!out.empty()) {
    const uint64_t group = offset / group_bytes;
    const size_t skip = offset % group_bytes;
    const size_t count = std::min(group_bytes - skip, out.size());
    if (count == group_bytes) {
      fill_group(group, out.first(count));
    } else {
      fill_group(group, std::span(whole).first(group_bytes));
      std::memcpy(out.data(), whole.data() + skip, count);
    }
    out = out.subspan(count);
    offset += count;
  }
}

void fill_uniform(float low, float high, uint64_t seed, uint64_t offset, std::span<std::byte> out) {
  KVASIR_CHECK(offset % sizeof(float) == 0 && out.size() % sizeof(float) == 0);
  for (size_t at = 0; at < out.size(); at += sizeof(float)) {
    uint64_t state = seed + (offset + at);
    const auto bits = static_cast<float>(split_mix(state) >> 40);  // 24 of them: exact
    store_le(out.data() + at, low + (high - low) * (bits * 0x1p-24F));
  }
}

}  // namespace kvasir::model
