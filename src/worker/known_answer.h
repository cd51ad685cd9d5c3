// The known-answer test: before a worker may take work, it computes fixed vectors with the very
// code that will do the work, and every bit must be the known one. A processor, compiler or
// instruction set that computes anything else is found out here and not by those who get its
// answers.
#pragma once

#include "base/error.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"

namespace kvasir::worker {

// Some hundredths of a second. kUnsupported naming the instruction set and the weight type that
// differ.
Result<void> check_known_answers(const kernels::KernelTable& kernels, ThreadPool& pool);

// What is compared: a hash over the outputs of small experts of one weight type, from f32 and
// quantised rows, in all encodings.
uint64_t known_answer(const kernels::KernelTable& kernels, ThreadPool& pool,
                      kernels::TensorType type);

}  // namespace kvasir::worker
