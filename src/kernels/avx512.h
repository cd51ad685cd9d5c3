// The two variants behind avx512(). Both give the same bits; tests compare the one that this
// processor would not choose as well.
#pragma once

#include "kernels/kernels.h"

namespace kvasir::kernels {

// Null where the processor lacks the instructions.
const KernelTable* avx512_without_vnni();
const KernelTable* avx512_vnni();

}  // namespace kvasir::kernels
