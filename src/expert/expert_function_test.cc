// The expert function on rows that somebody else quantised, against the same rows in f32.
#include "expert/expert_function.h"

#include <limits>

#include "expert/test_weights.h"

namespace kvasir::expert {
namespace {

using kernels::ActivationFormat;
using kernels::TensorType;

constexpr uint32_t kEmbd = 512, kWidth = 256;
constexpr size_t kRows = 7;
constexpr size_t kExperts = 3;

struct Weights {
  Weights(Random& random, TensorType gate_type, TensorType up_type, TensorType down_type) {
    for (size_t i = 0; i < kExperts; ++i) {
      matrices.push_back(std::make_unique<TestMatrix>(random, gate_type, kEmbd, kWidth));
      matrices.push_back(std::make_unique<TestMatrix>(random, up_type, kEmbd, kWidth));
      matrices.push_back(std::make_unique<TestMatrix>(random, down_type, kWidth, kEmbd));
    }
  }
  ExpertView expert(size_t i) const {
    return {matrices[3 * i]->view(), matrices[3 * i + 1]->view(), matrices[3 * i + 2]->view()};
  }
  std::vector<std::unique_ptr<TestMatrix>> matrices;
};

// Expert 0 takes one row, expert 1 neighbouring ones, expert 2 some in any order.
struct Work {
  explicit Work(const Weights& weights) {
    const std::vector<std::vector<uint32_t>> wanted = {{4}, {0, 1, 2, 3, 4, 5, 6}, {6, 0, 3}};
    for (size_t expert = 0; expert < kExperts; ++expert) {
      const size_t begin = pairs.size();
      for (uint32_t row : wanted[expert]) pairs.push_back({row, nullptr, std::nullopt});
      jobs.push_back({weights.expert(expert), begin, pairs.size()});
    }
    out.resize(pairs.size() * kEmbd, -1.0F);
    for (size_t i = 0; i < pairs.size(); ++i) pairs[i].out = out.data() + i * kEmbd;
  }
  std::vector<ExpertPair> pairs;
  std::vector<ExpertJob> jobs;
  std::vector<float> out;
};

std::vector<std::byte> quantised(ActivationFormat format, const std::vector<float>& rows) {
  const auto& scalar = kernels::scalar();
  const size_t stride = kernels::activation_row_bytes(format, kEmbd);
  std::vector<std::byte> bytes(kRows * stride);
  for (size_t row = 0; row < kRows; ++row) {
    const float* x = rows.data() + row * kEmbd;
    std::byte* out = bytes.data() + row * stride;
    if (format == ActivationFormat::kF32)
      std::memcpy(out, x, stride);
    else if (format == ActivationFormat::kQ8_0)
      KVASIR_CHECK(scalar.quantize_q8_0(x, kEmbd, reinterpret_cast<kernels::BlockQ8_0*>(out)));
    else
      KVASIR_CHECK(scalar.quantize_q8_k(x, kEmbd, reinterpret_cast<kernels::BlockQ8K*>(out)));
  }
  return bytes;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// For every instruction set, one and three threads, and calls of both kinds in turn, since they
// share scratch memory.
TEST(ExpertFunction, GivesTheSameBitsForRowsThatSomebodyElseQuantised) {
  Random random(5);
  const std::array<TensorType, 3> kinds[] = {
      {TensorType::kQ4_K, TensorType::kQ6_K, TensorType::kQ4_K},
      {TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kQ6_K},
      {TensorType::kF16, TensorType::kF32, TensorType::kQ8_0}};
  for (const auto& kind : kinds) {
    const Weights weights(random, kind[0], kind[1], kind[2]);
    const auto format = travel_format(weights.expert(0));
    ASSERT_TRUE(format.has_value());
    const auto rows = random_floats(random, kRows * kEmbd);
    const auto bytes = quantised(*format, rows);
    for (const kernels::KernelTable* table : all_tables()) {
      for (size_t threads : {1, 3}) {
        ThreadPool pool(threads);
        ExpertFunction function(*table, pool);
        for (auto encoding : {OutputEncoding::kF32, OutputEncoding::kF16, OutputEncoding::kQ8}) {
          Work floats(weights), given(weights);
          function.compute(rows.data(), kRows, floats.jobs, floats.pairs, encoding);
          function.compute({*format, bytes.data(), kRows}, given.jobs, given.pairs, encoding);
          EXPECT_TRUE(same_bits(floats.out, given.out)) << table->name;
          for (const ExpertPair& pair : given.pairs) EXPECT_FALSE(pair.failure.has_value());
        }
      }
    }
  }
}

TEST(ExpertFunction, SaysInWhichFormatARowMayTravel) {
  Random random(6);
  const auto format_of = [&](TensorType gate, TensorType up) {
    return travel_format(Weights(random, gate, up, TensorType::kQ8_0).expert(0));
  };
  EXPECT_EQ(format_of(TensorType::kQ4_K, TensorType::kQ6_K), ActivationFormat::kQ8_K);
  EXPECT_EQ(format_of(TensorType::kQ4_0, TensorType::kQ8_0), ActivationFormat::kQ8_0);
  EXPECT_EQ(format_of(TensorType::kF16, TensorType::kF16), ActivationFormat::kF32);
  EXPECT_EQ(format_of(TensorType::kQ4_K, TensorType::kQ8_0), std::nullopt);
  EXPECT_EQ(format_of(TensorType::kF32, TensorType::kQ8_0), std::nullopt);
}

// A stranger's row may have the largest of scales. Its pair fails, the others do not notice.
TEST(ExpertFunction, LetsARowWithAnExcessiveScaleFailAlone) {
  Random random(7);
  const Weights weights(random, TensorType::kQ4_K, TensorType::kQ4_K, TensorType::kQ4_K);
  const auto rows = random_floats(random, kRows * kEmbd);
  auto bytes = quantised(ActivationFormat::kQ8_K, rows);
  const float huge = std::numeric_limits<float>::max();
  std::memcpy(bytes.data() + 3 * kernels::activation_row_bytes(ActivationFormat::kQ8_K, kEmbd),
              &huge, sizeof huge);
  ThreadPool pool(1);
  ExpertFunction function(kernels::scalar(), pool);
  Work expected(weights), work(weights);
  function.compute(rows.data(), kRows, expected.jobs, expected.pairs, OutputEncoding::kF32);
  function.compute({ActivationFormat::kQ8_K, bytes.data(), kRows}, work.jobs, work.pairs,
                   OutputEncoding::kF32);
  for (size_t i = 0; i < work.pairs.size(); ++i) {
    EXPECT_EQ(work.pairs[i].failure.has_value(), work.pairs[i].row == 3);
    if (work.pairs[i].row == 3) continue;
    EXPECT_TRUE(std::equal(work.pairs[i].out, work.pairs[i].out + kEmbd, expected.pairs[i].out));
  }
}

}  // namespace
}  // namespace kvasir::expert
