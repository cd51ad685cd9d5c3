// The floating-point environment that docs/arithmetic.md requires of every compute thread.
#pragma once

namespace kvasir {

// Round to nearest even, subnormals kept (no flush to zero), exceptions masked. Called by every
// thread of a ThreadPool and by main(); cheap.
void set_canonical_fp_environment();

}  // namespace kvasir
