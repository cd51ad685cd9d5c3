#include "bench.h"

#include <random>

#include "base/fp_environment.h"

namespace kvasir::kernels {

void add_benchmark(const std::string& name, const Kernel& kernel) {
  set_canonical_fp_environment();
  for (const KernelTable* table : available_tables()) {
    if (table == nullptr) continue;
    benchmark::RegisterBenchmark((name + "/" + std::string(table->name)).c_str(),
                                 [=](benchmark::State& state) { kernel(state, *table); });
  }
}

std::vector<float> random_floats(size_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(n);
  for (float& value : x) value = normal(random);
  return x;
}

void count(benchmark::State& state, Work work) {
  const auto iterations = static_cast<size_t>(state.iterations());
  state.SetBytesProcessed(static_cast<int64_t>(iterations * work.bytes));
  state.SetItemsProcessed(static_cast<int64_t>(iterations * work.items));
}

}  // namespace kvasir::kernels
