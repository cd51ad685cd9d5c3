// Mat-muls of several matrices in one go. Rows of weights are cut into pieces and handed to the
// threads of a pool; how they are cut never changes a bit of the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/kernels.h"

namespace kvasir::expert {

// n_out rows of n_in weights each, row_bytes apart, as they lie in the file. Not owned.
struct MatrixView {
  kernels::TensorType type = kernels::TensorType::kF32;
  uint32_t n_in = 0;
  uint32_t n_out = 0;
  size_t row_bytes = 0;
  const std::byte* data = nullptr;
};

// y[i * y_stride + o] = row o of the matrix . activation row i, for i < n_x.
struct MatMulJob {
  MatrixView matrix;
  // In the activation format of the matrix's type, x_stride bytes apart.
  const std::byte* x = nullptr;
  size_t x_stride = 0;
  size_t n_x = 0;
  float* y = nullptr;
  size_t y_stride = 0;  // in floats
};

// Collects jobs that do not depend on each other and runs them together, because waking and joining
// the threads costs more than a small matrix. One thread; reuse one object, it keeps its memory.
class MatMulBatch {
 public:
  void add(const MatMulJob& job);
  // Computes all jobs and forgets them. Does not check for non-finite results.
  void run(const kernels::KernelTable& kernels, ThreadPool& pool);

 private:
  struct Piece {
    size_t rows_per_task;
    size_t first_task;
  };
  size_t cut(size_t threads);  // fills pieces_, returns the number of tasks

  std::vector<MatMulJob> jobs_;
  std::vector<Piece> pieces_;  // of each job
};

}  // namespace kvasir::expert
