#include "expert/mat_mul.h"

#include <algorithm>
#include <functional>

namespace kvasir::expert {
namespace {

// Weights of one task. A piece is read once from memory and then used for every activation row, so
// it has to stay in a core's second-level cache together with some of those rows. Larger: it does
// not. Smaller: the hand-out of tasks, and the reading of activations again for each, show up.
constexpr size_t kTaskBytesMax = 128 * 1024;
// Below this a task is over before the next one is fetched.
constexpr size_t kTaskBytesMin = 8 * 1024;
// Tasks per thread to aim for, so that a thread that was interrupted holds up the others by little.
constexpr size_t kTasksPerThread = 4;
// Kernels work on several rows at once; pieces that are a multiple of this leave them no remainder.
constexpr size_t kRowsMultiple = 32;

// Activation rows per kernel call: 64 rows of 3,072 values in Q8_K are 220 KB, which leaves room
// for the weights in a cache of 512 KB. Fewer: the kernels unpack the weights more often.
constexpr size_t kActivationRowsMax = 64;

}  // namespace

void MatMulBatch::add(const MatMulJob& job) {
  if (job.n_x != 0 && job.matrix.n_out != 0) jobs_.push_back(job);
}

size_t MatMulBatch::cut(size_t threads) {
  size_t bytes = 0;
  for (const MatMulJob& job : jobs_) bytes += job.matrix.n_out * job.matrix.row_bytes;
  const size_t task_bytes =
      std::clamp(bytes / (threads * kTasksPerThread), kTaskBytesMin, kTaskBytesMax);

  pieces_.clear();
  size_t tasks = 0;
  for (const MatMulJob& job : jobs_) {
    size_t rows = std::max<size_t>(task_bytes / std::max<size_t>(job.matrix.row_bytes, 1), 1);
    rows = (rows + kRowsMultiple - 1) / kRowsMultiple * kRowsMultiple;
    pieces_.push_back({rows, tasks});
    tasks += (job.matrix.n_out + rows - 1) / rows;
  }
  return tasks;
}

void MatMulBatch::run(const kernels::KernelTable& kernels, ThreadPool& pool) {
  const size_t tasks = cut(pool.threads());
  auto compute = [&](size_t task, size_t) {
    auto after =
        std::upper_bound(pieces_.begin(), pieces_.end(), task,
                         [](size_t index, const Piece& piece) { return index < piece.first_task; });
    const size_t index = static_cast<size_t>(after - pieces_.begin()) - 1;
    const MatMulJob& job = jobs_[index];
    const MatrixView& matrix = job.matrix;
    const size_t begin = (task - pieces_[index].first_task) * pieces_[index].rows_per_task;
    const size_t rows = std::min(pieces_[index].rows_per_task, matrix.n_out - begin);
    const kernels::MatMul mat_mul = kernels.matmul(matrix.type);
    for (size_t first = 0; first < job.n_x; first += kActivationRowsMax) {
      mat_mul(matrix.data + begin * matrix.row_bytes, matrix.row_bytes, rows, matrix.n_in,
              job.x + first * job.x_stride, job.x_stride,
              std::min(kActivationRowsMax, job.n_x - first), job.y + first * job.y_stride + begin,
              job.y_stride);
    }
  };
  pool.run(tasks, std::ref(compute));
  jobs_.clear();
}

}  // namespace kvasir::expert
