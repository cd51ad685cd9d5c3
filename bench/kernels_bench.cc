// Every kernel that matters for speed, once per instruction set of this machine, in one thread.
//
// matmul/<type>/decode/<table>: one activation row against 3,072 x 1,024 matrices that together are
// larger than the caches, so bytes_per_second is what decoding sees. .../prefill8/...: eight rows
// against one matrix; items_per_second counts multiplications.
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/fp_environment.h"
#include "gguf/types.h"
#include "kernels/canonical_math.h"
#include "kernels/kernels.h"

namespace kvasir::kernels {
namespace {

using benchmark::State;

constexpr size_t kRows = 1024;
constexpr size_t kColumns = 3072;
// More than any cache of the machines this is for.
constexpr size_t kWorkingSetBytes = size_t{256} << 20;

std::vector<float> random_floats(size_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(n);
  for (float& value : x) value = normal(random);
  return x;
}

// Random bytes with finite scales, which is all that the time depends on.
std::vector<std::byte> random_weights(TensorType type, size_t n_bytes) {
  std::mt19937_64 random(1);
  std::vector<std::byte> w(n_bytes + 8);
  for (size_t i = 0; i < n_bytes; i += 8) store_le(w.data() + i, uint64_t{random()});
  const gguf::TypeInfo& info = gguf::type_info(type);
  for (size_t i = 0; i + info.block_bytes <= n_bytes; i += info.block_bytes) {
    std::byte* block = w.data() + i;
    switch (type) {
      case TensorType::kF32:
      case TensorType::kMXFP4:
        block[type == TensorType::kF32 ? 3 : 0] = std::byte{60};
        break;
      case TensorType::kQ6_K:
        store_le(block + 208, uint16_t{0x1c00});
        break;
      case TensorType::kQ3_K:
        store_le(block + 108, uint16_t{0x1c00});
        break;
      case TensorType::kQ2_K:
        store_le(block + 80, uint32_t{0x1c001c00});
        break;
      case TensorType::kF16:
      case TensorType::kBF16:
      case TensorType::kQ8_0:
      case TensorType::kQ4_0:
      case TensorType::kQ5_0:
      case TensorType::kIQ4_NL:
      case TensorType::kIQ4_XS:
        store_le(block, uint16_t{0x1c00});
        break;
      default:
        store_le(block, uint32_t{0x1c001c00});
    }
  }
  return w;
}

std::vector<std::byte> random_activations(const KernelTable& table, TensorType type, size_t n_x,
                                          size_t n) {
  const ActivationFormat format = activation_format(type);
  const size_t row_bytes = activation_row_bytes(format, n);
  std::vector<std::byte> x(n_x * row_bytes);
  const std::vector<float> values = random_floats(n_x * n);
  for (size_t c = 0; c < n_x; ++c) {
    std::byte* row = x.data() + c * row_bytes;
    const float* row_values = values.data() + c * n;
    bool finite = true;
    switch (format) {
      case ActivationFormat::kF32:
        std::memcpy(row, row_values, row_bytes);
        break;
      case ActivationFormat::kQ8_0:
        finite = table.quantize_q8_0(row_values, n, reinterpret_cast<BlockQ8_0*>(row));
        break;
      case ActivationFormat::kQ8_K:
        finite = table.quantize_q8_k(row_values, n, reinterpret_cast<BlockQ8K*>(row));
        break;
    }
    KVASIR_CHECK(finite);
  }
  return x;
}

void matmul(State& state, const KernelTable& table, TensorType type, size_t n_x) {
  const size_t row_bytes = gguf::row_bytes(type, kColumns);
  const size_t matrix_bytes = kRows * row_bytes;
  const size_t n_matrices = n_x == 1 ? kWorkingSetBytes / matrix_bytes + 1 : 1;
  const std::vector<std::byte> w = random_weights(type, n_matrices * matrix_bytes);
  const std::vector<std::byte> x = random_activations(table, type, n_x, kColumns);
  const size_t x_stride = activation_row_bytes(activation_format(type), kColumns);
  std::vector<float> y(n_x * kRows);
  size_t matrix = 0;
  for (auto _ : state) {
    table.matmul(type)(w.data() + matrix * matrix_bytes, row_bytes, kRows, kColumns, x.data(),
                       x_stride, n_x, y.data(), kRows);
    benchmark::ClobberMemory();
    matrix = (matrix + 1) % n_matrices;
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * matrix_bytes));
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * n_x * kRows * kColumns));
}

void quantize_q8_k(State& state, const KernelTable& table) {
  const std::vector<float> x = random_floats(kColumns);
  std::vector<BlockQ8K> out(kColumns / 256);
  for (auto _ : state) {
    benchmark::DoNotOptimize(table.quantize_q8_k(x.data(), x.size(), out.data()));
    benchmark::ClobberMemory();
  }
}

void quantize_q8_0(State& state, const KernelTable& table) {
  const std::vector<float> x = random_floats(kColumns);
  std::vector<BlockQ8_0> out(kColumns / 32);
  for (auto _ : state) {
    benchmark::DoNotOptimize(table.quantize_q8_0(x.data(), x.size(), out.data()));
    benchmark::ClobberMemory();
  }
}

void dot(State& state, const KernelTable& table) {
  const std::vector<float> x = random_floats(kColumns);
  for (auto _ : state) benchmark::DoNotOptimize(table.dot(x.data(), x.data(), x.size()));
}

void rms_norm(State& state, const KernelTable& table) {
  const std::vector<float> x = random_floats(kColumns);
  std::vector<float> y(kColumns);
  for (auto _ : state) {
    table.rms_norm(x.data(), x.data(), x.size(), 1e-6F, y.data());
    benchmark::ClobberMemory();
  }
}

void silu_mul(State& state, const KernelTable& table) {
  const std::vector<float> x = random_floats(1024);
  std::vector<float> y(1024);
  for (auto _ : state) {
    table.silu_mul(x.data(), x.data(), x.size(), y.data());
    benchmark::ClobberMemory();
  }
}

void softmax(State& state, const KernelTable& table) {
  const std::vector<float> x = random_floats(256);
  std::vector<float> y(256);
  for (auto _ : state) {
    table.softmax(x.data(), x.size(), y.data());
    benchmark::ClobberMemory();
  }
}

// One head of 256 over a whole block of 256 positions, f16.
struct AttentionBlock {
  static constexpr size_t kDim = 256;
  static constexpr size_t kPositions = 256;
  std::vector<float> q = random_floats(kDim);
  std::vector<float> scores = random_floats(kPositions);
  std::vector<uint16_t> rows = std::vector<uint16_t>(kDim * kPositions);
  std::vector<float> u = std::vector<float>(kDim);

  AttentionBlock() {
    const std::vector<float> values = random_floats(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = kernels::f16_from_f32(values[i]);
  }
  const std::byte* bytes() const { return reinterpret_cast<const std::byte*>(rows.data()); }
};

void attention_scores(State& state, const KernelTable& table) {
  AttentionBlock block;
  for (auto _ : state) {
    table.attention_scores(block.q.data(), block.bytes(), 2 * AttentionBlock::kDim, KvType::kF16,
                           AttentionBlock::kDim, AttentionBlock::kPositions, 0.0625F,
                           block.scores.data());
    benchmark::ClobberMemory();
  }
}

void attention_values(State& state, const KernelTable& table) {
  AttentionBlock block;
  for (auto _ : state) {
    std::vector<float> scores = block.scores;
    benchmark::DoNotOptimize(table.attention_values(
        scores.data(), 4.0F, block.bytes(), 2 * AttentionBlock::kDim, KvType::kF16,
        AttentionBlock::kDim, AttentionBlock::kPositions, block.u.data()));
    benchmark::ClobberMemory();
  }
}

void conv_silu(State& state, const KernelTable& table) {
  constexpr size_t kChannels = 8192;
  const std::vector<float> x = random_floats(4 * kChannels);
  const float* taps[] = {x.data(), x.data() + kChannels, x.data() + 2 * kChannels,
                         x.data() + 3 * kChannels};
  std::vector<float> out(kChannels);
  for (auto _ : state) {
    table.conv_silu(taps, 4, x.data(), kChannels, out.data());
    benchmark::ClobberMemory();
  }
}

// 64 heads of 128 x 128, so that the state comes from memory.
void delta_step(State& state, const KernelTable& table) {
  constexpr size_t kDim = 128;
  constexpr size_t kHeads = 64;
  std::vector<float> s = random_floats(kHeads * kDim * kDim);
  std::vector<float> q = random_floats(kDim);
  for (float& value : q) value *= 0.05F;
  std::vector<float> o(kDim);
  size_t head = 0;
  for (auto _ : state) {
    table.delta_step(s.data() + head * kDim * kDim, q.data(), q.data(), q.data(), 0.9F, 0.5F, 1.0F,
                     kDim, kDim, o.data());
    benchmark::ClobberMemory();
    head = (head + 1) % kHeads;
  }
  state.SetBytesProcessed(
      static_cast<int64_t>(state.iterations() * 2 * kDim * kDim * sizeof(float)));
}

int register_all() {
  set_canonical_fp_environment();
  for (const KernelTable* table : available_tables()) {
    if (table == nullptr) continue;
    const std::string name(table->name);
    const auto add = [&](const std::string& what, auto function) {
      benchmark::RegisterBenchmark((what + "/" + name).c_str(),
                                   [=](State& state) { function(state, *table); });
    };
    for (const gguf::TypeInfo& info : gguf::all_types()) {
      if (!is_supported(info.type)) continue;
      const std::string type = "matmul/" + std::string(info.name);
      add(type + "/decode",
          [type = info.type](State& state, const KernelTable& t) { matmul(state, t, type, 1); });
      add(type + "/prefill8",
          [type = info.type](State& state, const KernelTable& t) { matmul(state, t, type, 8); });
    }
    add("quantize_q8_k/3072", quantize_q8_k);
    add("quantize_q8_0/3072", quantize_q8_0);
    add("dot/3072", dot);
    add("rms_norm/3072", rms_norm);
    add("silu_mul/1024", silu_mul);
    add("softmax/256", softmax);
    add("attention_scores/256x256", attention_scores);
    add("attention_values/256x256", attention_values);
    add("conv_silu/4x8192", conv_silu);
    add("delta_step/128x128", delta_step);
  }
  return 0;
}

const int kRegistered = register_all();

}  // namespace
}  // namespace kvasir::kernels
