// The two variants behind neon(). Both give the same bits; tests compare the one that this
// processor would not choose as well.
#pragma once

#include "kernels/kernels.h"

namespace kvasir::kernels {

const KernelTable* neon_without_dotprod();
const KernelTable* neon_dotprod();  // null where the processor lacks the instructions

}  // namespace kvasir::kernels
