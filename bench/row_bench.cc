// Everything that is done with a row between two mat-muls: quantisation, norms, activations,
// conversions, sums. Operands lie in the first-level cache, as they mostly do in the engine.
#include "bench.h"

namespace kvasir::kernels {
namespace {

using benchmark::State;

template <typename Step>
void repeat(State& state, Work work, const Step& step) {
  for (auto _ : state) {
    step();
    benchmark::ClobberMemory();
  }
  count(state, work);
}

template <typename Block>
void quantise(State& state, size_t n, size_t block_length,
              bool (*kernel)(const float*, size_t, Block*)) {
  const std::vector<float> x = random_floats(n);
  std::vector<Block> out(n / block_length);
  repeat(state, {n * sizeof(float) + out.size() * sizeof(Block), n},
         [&] { benchmark::DoNotOptimize(kernel(x.data(), n, out.data())); });
}

void all_finite(State& state, const KernelTable& table) {
  const std::vector<float> x = random_floats(kEmbedding);
  repeat(state, {x.size() * sizeof(float), x.size()},
         [&] { benchmark::DoNotOptimize(table.all_finite(x.data(), x.size())); });
}

void f16_from_f32(State& state, const KernelTable& table) {
  const std::vector<float> x = random_floats(kHeadDim);
  std::vector<uint16_t> out(x.size());
  repeat(state, {x.size() * 6, x.size()},
         [&] { benchmark::DoNotOptimize(table.f16_from_f32(x.data(), x.size(), out.data())); });
}

void f32_from_f16(State& state, const KernelTable& table) {
  const std::vector<uint16_t> x(kHeadDim, 0x3c00);
  std::vector<float> out(x.size());
  repeat(state, {x.size() * 6, x.size()},
         [&] { table.f32_from_f16(x.data(), x.size(), out.data()); });
}

void dot(State& state, const KernelTable& table) {
  const std::vector<float> x = random_floats(kEmbedding);
  repeat(state, {2 * x.size() * sizeof(float), x.size()},
         [&] { benchmark::DoNotOptimize(table.dot(x.data(), x.data(), x.size())); });
}

void rms_norm(State& state, const KernelTable& table, size_t n) {
  const std::vector<float> x = random_floats(n);
  std::vector<float> y(n);
  repeat(state, {3 * n * sizeof(float), n},
         [&] { table.rms_norm(x.data(), x.data(), n, 1e-6F, y.data()); });
}

void l2_norm(State& state, const KernelTable& table) {
  const std::vector<float> x = random_floats(kDeltaHeadDim);
  std::vector<float> y(x.size());
  repeat(state, {2 * x.size() * sizeof(float), x.size()},
         [&] { table.l2_norm(x.data(), x.size(), 1e-6F, y.data()); });
}

// y = f(x)
void map_one(State& state, void (*kernel)(const float*, size_t, float*), size_t n) {
  const std::vector<float> x = random_floats(n);
  std::vector<float> y(n);
  repeat(state, {2 * n * sizeof(float), n}, [&] { kernel(x.data(), n, y.data()); });
}

// y = f(a, b)
void map_two(State& state, void (*kernel)(const float*, const float*, size_t, float*), size_t n) {
  const std::vector<float> x = random_floats(n);
  std::vector<float> y(n);
  repeat(state, {3 * n * sizeof(float), n}, [&] { kernel(x.data(), x.data(), n, y.data()); });
}

void axpy(State& state, const KernelTable& table) {
  const std::vector<float> x = random_floats(kEmbedding);
  std::vector<float> y(x.size());
  repeat(state, {3 * x.size() * sizeof(float), x.size()},
         [&] { table.axpy(0.125F, x.data(), x.size(), y.data()); });
}

void rope(State& state, const KernelTable& table) {
  const std::vector<float> cos(kRopeHalf, 0.6F), sin(kRopeHalf, 0.8F);
  std::vector<float> x = random_floats(2 * kRopeHalf);
  repeat(state, {6 * kRopeHalf * sizeof(float), 2 * kRopeHalf},
         [&] { table.rope(cos.data(), sin.data(), kRopeHalf, x.data()); });
}

const bool kRegistered = [] {
  for (size_t n : {kEmbedding, kExpertWidth}) {
    const std::string size = "/" + std::to_string(n);
    add_benchmark("quantize_q8_k" + size, [n](State& state, const KernelTable& table) {
      quantise(state, n, 256, table.quantize_q8_k);
    });
    add_benchmark("quantize_q8_0" + size, [n](State& state, const KernelTable& table) {
      quantise(state, n, 32, table.quantize_q8_0);
    });
  }
  add_benchmark("all_finite/3072", all_finite);
  add_benchmark("f16_from_f32/256", f16_from_f32);
  add_benchmark("f32_from_f16/256", f32_from_f16);
  add_benchmark("dot/3072", dot);
  for (size_t n : {kEmbedding, kHeadDim, kDeltaHeadDim}) {
    add_benchmark("rms_norm/" + std::to_string(n),
                  [n](State& state, const KernelTable& table) { rms_norm(state, table, n); });
  }
  add_benchmark("l2_norm/128", l2_norm);
  add_benchmark("exp/1024", [](State& state, const KernelTable& table) {
    map_one(state, table.exp, kExpertWidth);
  });
  add_benchmark("sigmoid/1024", [](State& state, const KernelTable& table) {
    map_one(state, table.sigmoid, kExpertWidth);
  });
  add_benchmark("silu/1024", [](State& state, const KernelTable& table) {
    map_one(state, table.silu, kExpertWidth);
  });
  add_benchmark("silu_mul/1024", [](State& state, const KernelTable& table) {
    map_two(state, table.silu_mul, kExpertWidth);
  });
  add_benchmark("sigmoid_mul/256", [](State& state, const KernelTable& table) {
    map_two(state, table.sigmoid_mul, kHeadDim);
  });
  add_benchmark("softmax/256", [](State& state, const KernelTable& table) {
    map_one(state, table.softmax, kExperts);
  });
  add_benchmark("add/3072", [](State& state, const KernelTable& table) {
    map_two(state, table.add, kEmbedding);
  });
  add_benchmark("axpy/3072", axpy);
  add_benchmark("rope/64", rope);
  return true;
}();

}  // namespace
}  // namespace kvasir::kernels
