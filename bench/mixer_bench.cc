// Kernels that read what a sequence remembers: keys, values, windows and matrices.
#include "bench.h"
#include "kernels/canonical_math.h"

namespace kvasir::kernels {
namespace {

using benchmark::State;

// A whole page of one head.
constexpr size_t kPositions = 256;
// Heads, or windows, that are taken in turn, so that their memory is larger than a core's caches.
constexpr size_t kPages = 256;

std::vector<std::byte> random_page_rows(KvType type, size_t n) {
  const std::vector<float> values = random_floats(n);
  std::vector<std::byte> rows(n * (type == KvType::kF16 ? 2 : 4));
  for (size_t i = 0; i < n; ++i) {
    if (type == KvType::kF16)
      reinterpret_cast<uint16_t*>(rows.data())[i] = kernels::f16_from_f32(values[i]);
    else
      reinterpret_cast<float*>(rows.data())[i] = values[i];
  }
  return rows;
}

struct Pages {
  explicit Pages(KvType type)
      : row_bytes(kHeadDim * (type == KvType::kF16 ? 2 : 4)),
        rows(kPages * kPositions * row_bytes) {
    // The same page again and again: only where it lies makes a difference.
    const std::vector<std::byte> one = random_page_rows(type, kPositions * kHeadDim);
    for (size_t at = 0; at < rows.size(); at += one.size())
      std::copy(one.begin(), one.end(), rows.begin() + static_cast<ptrdiff_t>(at));
  }
  const std::byte* next() {
    page = (page + 1) % kPages;
    return rows.data() + page * kPositions * row_bytes;
  }
  Work work() const { return {kPositions * row_bytes, kPositions * kHeadDim}; }

  size_t row_bytes;
  std::vector<std::byte> rows;
  size_t page = 0;
};

void attention_scores(State& state, const KernelTable& table, KvType type) {
  Pages pages(type);
  const std::vector<float> q = random_floats(kHeadDim);
  std::vector<float> scores(kPositions);
  for (auto _ : state) {
    table.attention_scores(q.data(), pages.next(), pages.row_bytes, type, kHeadDim, kPositions,
                           0.0625F, scores.data());
    benchmark::ClobberMemory();
  }
  count(state, pages.work());
}

void attention_values(State& state, const KernelTable& table, KvType type) {
  Pages pages(type);
  const std::vector<float> from = random_floats(kPositions);
  std::vector<float> scores(kPositions), u(kHeadDim);
  for (auto _ : state) {
    std::copy(from.begin(), from.end(), scores.begin());  // the kernel overwrites them
    benchmark::DoNotOptimize(table.attention_values(
        scores.data(), 4.0F, pages.next(), pages.row_bytes, type, kHeadDim, kPositions, u.data()));
    benchmark::ClobberMemory();
  }
  count(state, pages.work());
}

void conv_silu(State& state, const KernelTable& table) {
  const std::vector<float> x = random_floats(kConvTaps * kChannels);
  const float* taps[kConvTaps];
  for (size_t tap = 0; tap < kConvTaps; ++tap) taps[tap] = x.data() + tap * kChannels;
  std::vector<float> out(kChannels);
  for (auto _ : state) {
    table.conv_silu(taps, kConvTaps, x.data(), kChannels, out.data());
    benchmark::ClobberMemory();
  }
  count(state, {(2 * kConvTaps + 1) * kChannels * sizeof(float), kConvTaps * kChannels});
}

// All heads of a layer in turn, so that the state does not stay in a core's caches.
void delta_step(State& state, const KernelTable& table) {
  constexpr size_t kDim = kDeltaHeadDim;
  std::vector<float> s = random_floats(kDeltaHeads * kDim * kDim);
  std::vector<float> q = random_floats(kDim);
  for (float& value : q) value *= 0.05F;
  std::vector<float> o(kDim);
  size_t head = 0;
  for (auto _ : state) {
    table.delta_step(s.data() + head * kDim * kDim, q.data(), q.data(), q.data(), 0.9F, 0.5F, 1.0F,
                     kDim, kDim, o.data());
    benchmark::ClobberMemory();
    head = (head + 1) % kDeltaHeads;
  }
  count(state, {2 * kDim * kDim * sizeof(float), kDim * kDim});
}

const bool kRegistered = [] {
  for (const auto& [type, name] :
       {std::pair(KvType::kF16, "f16"), std::pair(KvType::kF32, "f32")}) {
    const std::string suffix = std::string("/256x256/") + name;
    add_benchmark("attention_scores" + suffix,
                  [type = type](State& state, const KernelTable& table) {
                    attention_scores(state, table, type);
                  });
    add_benchmark("attention_values" + suffix,
                  [type = type](State& state, const KernelTable& table) {
                    attention_values(state, table, type);
                  });
  }
  add_benchmark("conv_silu/4x12288", conv_silu);
  add_benchmark("delta_step/128x128", delta_step);
  return true;
}();

}  // namespace
}  // namespace kvasir::kernels
