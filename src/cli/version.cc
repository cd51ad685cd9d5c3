#include "cli/version.h"

#include <fmt/format.h>

#include "kernels/kernels.h"

namespace kvasir::cli {

std::string version_text() {
  std::string names;
  for (const kernels::KernelTable* table : kernels::available_tables())
    if (table != nullptr) names += fmt::format(" {}", table->name);
  return fmt::format("kvasir {}\narithmetic version {}\nkernels:{}", kVersion,
                     kernels::kArithmeticVersion, names);
}

}  // namespace kvasir::cli
