#include "worker/known_answer.h"

#include <chrono>

namespace kvasir::worker {
namespace {

using kernels::KernelTable;
using kernels::TensorType;
using testing::HasSubstr;

TEST(KnownAnswer, HoldsForEveryInstructionSetAndNumberOfThreads) {
  for (const KernelTable* table : kernels::available_tables()) {
    if (table == nullptr) continue;
    for (size_t threads : {1, 3}) {
      ThreadPool pool(threads);
      const auto checked = check_known_answers(*table, pool);
      EXPECT_TRUE(checked) << checked.error().message;
    }
  }
}

// The definition of the constants: what to write into known_answer.cc if the arithmetic changes.
TEST(KnownAnswer, KnowsEveryWeightTypeThatThereAreKernelsFor) {
  ThreadPool pool(1);
  size_t types = 0;
  for (size_t code = 0; code < kernels::scalar().matmul_by_type.size(); ++code) {
    const auto type = static_cast<TensorType>(code);
    if (kernels::scalar().matmul_by_type[code] == nullptr) continue;
    ++types;
    EXPECT_NE(known_answer(kernels::scalar(), pool, type), 0U) << code;
  }
  EXPECT_EQ(types, 16U);
}

template <TensorType kType>
void off_by_one_bit(const std::byte* w, size_t row_bytes, size_t n_rows, size_t n,
                    const std::byte* x, size_t x_stride, size_t n_x, float* y, size_t y_stride) {
  kernels::scalar().matmul(kType)(w, row_bytes, n_rows, n, x, x_stride, n_x, y, y_stride);
  uint32_t bits;
  std::memcpy(&bits, y, sizeof bits);
  bits ^= 1;
  std::memcpy(y, &bits, sizeof bits);
}

TEST(KnownAnswer, RefusesATableWithOneWrongKernelAndNamesIt) {
  struct Case {
    TensorType type;
    kernels::MatMul kernel;
    const char* name;
  };
  constexpr Case kCases[] = {{TensorType::kQ5_K, off_by_one_bit<TensorType::kQ5_K>, "Q5_K"},
                             {TensorType::kIQ4_NL, off_by_one_bit<TensorType::kIQ4_NL>, "IQ4_NL"},
                             {TensorType::kBF16, off_by_one_bit<TensorType::kBF16>, "BF16"}};
  ThreadPool pool(1);
  for (const auto& [type, kernel, name] : kCases) {
    KernelTable table = kernels::scalar();
    table.name = "broken";
    table.matmul_by_type[static_cast<size_t>(type)] = kernel;
    const auto checked = check_known_answers(table, pool);
    ASSERT_FALSE(checked) << name;
    EXPECT_EQ(checked.error().kind, ErrorKind::kUnsupported);
    EXPECT_THAT(checked.error().message, HasSubstr("instruction set broken"));
    EXPECT_THAT(checked.error().message, HasSubstr(name));
  }
}

void wrong_silu_mul(const float* gate, const float* up, size_t n, float* out) {
  kernels::scalar().silu_mul(gate, up, n, out);
  if (n > 100) out[100] = -out[100];
}
bool wrong_quantize(const float* x, size_t n, kernels::BlockQ8K* out) {
  const bool good = kernels::scalar().quantize_q8_k(x, n, out);
  out[0].q[7] = static_cast<int8_t>(out[0].q[7] / 2);
  return good;
}

TEST(KnownAnswer, SeesWrongFunctionsBesideTheMatMuls) {
  ThreadPool pool(1);
  KernelTable table = kernels::scalar();
  table.silu_mul = wrong_silu_mul;
  EXPECT_FALSE(check_known_answers(table, pool));
  table = kernels::scalar();
  table.quantize_q8_k = wrong_quantize;
  EXPECT_FALSE(check_known_answers(table, pool));
}

}  // namespace
}  // namespace kvasir::worker
