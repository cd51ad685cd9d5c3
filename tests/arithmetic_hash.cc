// Prints one hash over the results of the canonical arithmetic on fixed pseudo-random input: the
// same number on every processor. Built natively, for AArch64 and for WebAssembly;
// scripts/portable-check.sh compares them.
#include <array>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/fp_environment.h"
#include "expert/encoding.h"
#include "kernels/bit_cast.h"
#include "kernels/canonical_math.h"
#include "kernels/kernels.h"

namespace {

using namespace kvasir;
using namespace kvasir::kernels;

// FNV-1a, 64 bit: enough to tell equal from different, and without dependencies.
class Hash {
 public:
  void add(const void* data, size_t bytes) {
    for (const auto* at = static_cast<const unsigned char*>(data); bytes > 0; --bytes, ++at)
      state_ = (state_ ^ *at) * 0x100000001b3U;
  }
  template <typename T>
  void add(const std::vector<T>& values) {
    add(values.data(), values.size() * sizeof(T));
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0xcbf29ce484222325U;
};

// xorshift64*: integers only, so the input is the same everywhere.
class Random {
 public:
  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1dU;
  }
  // In [-1, 1), a multiple of 2^-23.
  float unit() {
    return static_cast<float>(static_cast<int32_t>(next() >> 40) - (1 << 23)) * 0x1p-23F;
  }

 private:
  uint64_t state_ = 0x9e3779b97f4a7c15U;
};

// Where a block keeps its f16 fields; random bytes there could be infinities.
struct ScaleFields {
  TensorType type;
  std::array<int, 2> offsets;  // -1: none
};
constexpr ScaleFields kTypes[] = {
    {TensorType::kQ4_0, {0, -1}},   {TensorType::kQ4_1, {0, 2}},    {TensorType::kQ5_0, {0, -1}},
    {TensorType::kQ5_1, {0, 2}},    {TensorType::kQ8_0, {0, -1}},   {TensorType::kQ2_K, {80, 82}},
    {TensorType::kQ3_K, {108, -1}}, {TensorType::kQ4_K, {0, 2}},    {TensorType::kQ5_K, {0, 2}},
    {TensorType::kQ6_K, {208, -1}}, {TensorType::kIQ4_NL, {0, -1}}, {TensorType::kIQ4_XS, {0, -1}},
    {TensorType::kMXFP4, {-1, -1}}, {TensorType::kF32, {-1, -1}},   {TensorType::kF16, {-1, -1}},
    {TensorType::kBF16, {-1, -1}},
};

std::vector<std::byte> random_weights(const ScaleFields& fields, size_t n, Random& random) {
  const gguf::TypeInfo& info = gguf::type_info(fields.type);
  std::vector<std::byte> row(static_cast<size_t>(gguf::row_bytes(fields.type, n)));
  for (std::byte& byte : row) byte = static_cast<std::byte>(random.next() >> 56);
  for (size_t block = 0; block < row.size(); block += info.block_bytes) {
    std::byte* at = row.data() + block;
    for (int offset : fields.offsets)
      if (offset >= 0) store_le<uint16_t>(at + offset, f16_from_f32(random.unit()));
    if (fields.type == TensorType::kMXFP4) at[0] = static_cast<std::byte>(100 + random.next() % 50);
    if (fields.type == TensorType::kF32) store_le<float>(at, random.unit());
    if (fields.type == TensorType::kF16) store_le<uint16_t>(at, f16_from_f32(random.unit()));
    if (fields.type == TensorType::kBF16)
      store_le<uint16_t>(at, static_cast<uint16_t>(bit_cast<uint32_t>(random.unit()) >> 16));
  }
  return row;
}

std::vector<float> random_row(size_t n, float scale, Random& random) {
  std::vector<float> row(n);
  for (float& value : row) value = random.unit() * scale;
  return row;
}

void hash_dot_products(const KernelTable& table, Random& random, Hash& hash) {
  constexpr size_t kValues = 512;
  for (const ScaleFields& fields : kTypes) {
    for (int row = 0; row < 100; ++row) {
      std::vector<std::byte> weights = random_weights(fields, kValues, random);
      std::vector<float> x = random_row(kValues, 8.0F, random);
      ActivationFormat format = activation_format(fields.type);
      std::vector<std::byte> packed(activation_row_bytes(format, kValues));
      if (format == ActivationFormat::kQ8_K)
        table.quantize_q8_k(x.data(), kValues, reinterpret_cast<BlockQ8K*>(packed.data()));
      else if (format == ActivationFormat::kQ8_0)
        table.quantize_q8_0(x.data(), kValues, reinterpret_cast<BlockQ8_0*>(packed.data()));
      else
        std::memcpy(packed.data(), x.data(), packed.size());
      float y = 0;
      table.matmul(fields.type)(weights.data(), weights.size(), 1, kValues, packed.data(),
                                packed.size(), 1, &y, 1);
      hash.add(packed);
      hash.add(&y, sizeof y);
    }
  }
}

void hash_functions(const KernelTable& table, Random& random, Hash& hash) {
  constexpr size_t kValues = 1000;
  std::vector<float> out(kValues);
  for (float scale : {1.0F, 20.0F, 100.0F}) {
    std::vector<float> x = random_row(kValues, scale, random);
    std::vector<float> y = random_row(kValues, scale, random);
    table.exp(x.data(), kValues, out.data()), hash.add(out);
    table.silu_mul(x.data(), y.data(), kValues, out.data()), hash.add(out);
    table.softmax(x.data(), kValues, out.data()), hash.add(out);
    table.rms_norm(x.data(), y.data(), kValues, 1e-6F, out.data()), hash.add(out);
    for (size_t i = 0; i < kValues; ++i) out[i] = canonical_softplus(x[i]);
    hash.add(out);
    for (size_t i = 0; i < kValues; ++i) out[i] = canonical_log(x[i] * x[i] + 1e-3F);
    hash.add(out);
  }
  std::vector<float> cos(64), sin(64);
  for (uint64_t position : {0U, 1U, 4095U, 262143U}) {
    rope_angles(position, 1e7, 128, cos.data(), sin.data());
    hash.add(cos);
    hash.add(sin);
  }
}

void hash_encodings(const KernelTable& table, Random& random, Hash& hash) {
  constexpr size_t kValues = 256;
  for (auto encoding : {expert::OutputEncoding::kF16, expert::OutputEncoding::kQ8}) {
    std::vector<std::byte> wire(expert::encoded_bytes(encoding, kValues));
    for (float scale : {1e-20F, 1e-3F, 1.0F, 1e6F, 1e30F}) {
      std::vector<float> y = random_row(kValues, scale, random);
      expert::encode(table, encoding, y, wire.data());
      hash.add(wire);
      const bool fits = expert::apply_encoding(table, encoding, y, wire.data());
      hash.add(&fits, sizeof fits);
      hash.add(y);
    }
  }
}

}  // namespace

int main() {
  set_canonical_fp_environment();
  // Every table of one machine must agree before machines are compared.
  std::optional<uint64_t> agreed;
  for (const KernelTable* table : available_tables()) {
    if (table == nullptr) continue;
    Random random;
    Hash hash;
    hash_dot_products(*table, random, hash);
    hash_functions(*table, random, hash);
    hash_encodings(*table, random, hash);
    if (agreed.value_or(hash.value()) != hash.value()) {
      std::printf("%s differs from scalar\n", table->name.data());
      return 1;
    }
    agreed = hash.value();
  }
  std::printf("arithmetic %d: %016llx\n", kArithmeticVersion,
              static_cast<unsigned long long>(*agreed));
  return 0;
}
