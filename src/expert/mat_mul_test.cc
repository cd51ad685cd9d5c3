// Batches of mat-muls: every cut of the work gives the bits of the obvious loop.
#include "expert/mat_mul.h"

#include <memory>

#include "expert/activation_rows.h"
#include "expert/test_weights.h"

namespace kvasir::expert {
namespace {

using kernels::TensorType;

struct Shape {
  TensorType type;
  uint32_t n_in, n_out;
  size_t n_x;
};

// Matrices of very different sizes in one batch: one row, a few, thousands; one activation row and
// more than one kernel call takes.
TEST(MatMulBatch, GivesTheSameBitsForAnyNumberOfThreads) {
  const Shape shapes[] = {{TensorType::kF32, 48, 1, 1},     {TensorType::kQ8_0, 64, 5000, 2},
                          {TensorType::kQ4_K, 256, 33, 70}, {TensorType::kQ6_K, 512, 700, 3},
                          {TensorType::kF16, 40, 9, 33},    {TensorType::kQ4_0, 32, 64, 1}};
  Random random(1);
  std::vector<std::unique_ptr<TestMatrix>> matrices;
  std::vector<std::vector<float>> inputs, expected;
  for (const Shape& shape : shapes) {
    matrices.push_back(std::make_unique<TestMatrix>(random, shape.type, shape.n_in, shape.n_out));
    inputs.push_back(random_floats(random, shape.n_in * shape.n_x));
    expected.emplace_back();
    for (size_t row = 0; row < shape.n_x; ++row) {
      const auto y = multiply(matrices.back()->view(),
                              std::span(inputs.back()).subspan(row * shape.n_in, shape.n_in));
      expected.back().insert(expected.back().end(), y.begin(), y.end());
    }
  }

  for (const kernels::KernelTable* table : all_tables()) {
    for (size_t threads : {1, 2, 5}) {
      ThreadPool pool(threads);
      MatMulBatch batch;
      std::vector<ActivationRows> quantised(std::size(shapes));
      std::vector<std::vector<float>> outputs;
      for (size_t i = 0; i < std::size(shapes); ++i) {
        const Shape& shape = shapes[i];
        const auto format = kernels::activation_format(shape.type);
        quantised[i].resize(shape.n_x, shape.n_in, FormatSet{shape.type});
        for (size_t row = 0; row < shape.n_x; ++row)
          ASSERT_TRUE(quantised[i].quantise(*table, row, inputs[i].data() + row * shape.n_in,
                                            FormatSet{shape.type}));
        outputs.emplace_back(expected[i].size(), -1.0F);
        const std::byte* x = format == kernels::ActivationFormat::kF32
                                 ? reinterpret_cast<const std::byte*>(inputs[i].data())
                                 : quantised[i].row(format, 0);
        batch.add({matrices[i]->view(), x, quantised[i].stride(format), shape.n_x,
                   outputs[i].data(), shape.n_out});
      }
      batch.run(*table, pool);
      for (size_t i = 0; i < std::size(shapes); ++i)
        EXPECT_EQ(std::memcmp(outputs[i].data(), expected[i].data(), expected[i].size() * 4), 0)
            << table->name << ", " << threads << " threads, matrix " << i;
    }
  }
}

TEST(MatMulBatch, ForgetsItsJobsAndTakesNone) {
  ThreadPool pool(2);
  MatMulBatch batch;
  batch.run(kernels::scalar(), pool);
  Random random(2);
  const TestMatrix matrix(random, TensorType::kF32, 8, 4);
  const auto x = random_floats(random, 8);
  std::vector<float> y(4, 0.0F);
  batch.add({matrix.view(), reinterpret_cast<const std::byte*>(x.data()), 32, 0, y.data(), 4});
  batch.add({matrix.view(), reinterpret_cast<const std::byte*>(x.data()), 32, 1, y.data(), 4});
  batch.run(kernels::scalar(), pool);
  EXPECT_EQ(y, multiply(matrix.view(), x));
  y.assign(4, 0.0F);
  batch.run(kernels::scalar(), pool);
  EXPECT_EQ(y, std::vector<float>(4, 0.0F));
}

// A row that cannot be quantised is zero in every format, whichever noticed.
TEST(ActivationRows, AreZeroWhereARowIsNotFinite) {
  Random random(3);
  ActivationRows rows;
  const FormatSet formats{TensorType::kQ8_0, TensorType::kQ4_K};
  rows.resize(2, 256, formats);
  auto x = random_floats(random, 256);
  EXPECT_TRUE(rows.quantise(kernels::scalar(), 0, x.data(), formats));
  x[200] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(rows.quantise(kernels::scalar(), 0, x.data(), formats));
  EXPECT_FALSE(rows.quantise(kernels::scalar(), 0, x.data(), FormatSet{TensorType::kF32}));
  for (auto format : {kernels::ActivationFormat::kQ8_0, kernels::ActivationFormat::kQ8_K})
    for (size_t i = 0; i < rows.stride(format); ++i)
      ASSERT_EQ(rows.row(format, 0)[i], std::byte{0});
}

}  // namespace
}  // namespace kvasir::expert
