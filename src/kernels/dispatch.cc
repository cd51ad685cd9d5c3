// Which tables this machine can run, and which one it should.
#include <cstdlib>

#include "kernels/kernels.h"

namespace kvasir::kernels {

#if !defined(__x86_64__)
const KernelTable* avx2() {
  return nullptr;
}
const KernelTable* avx512() {
  return nullptr;
}
#endif
#if !defined(__aarch64__)
const KernelTable* neon() {
  return nullptr;
}
#endif

std::array<const KernelTable*, 3> available_tables() {
  std::array<const KernelTable*, 3> tables = {&scalar(), nullptr, nullptr};
  size_t n = 1;
  for (const KernelTable* table : {avx2(), avx512(), neon()}) {
    if (table != nullptr) tables[n++] = table;
  }
  return tables;
}

Result<const KernelTable*> find_table(std::string_view name) {
  const KernelTable* table = nullptr;
  if (name == "scalar") {
    table = &scalar();
  } else if (name == "avx2") {
    table = avx2();
  } else if (name == "avx512") {
    table = avx512();
  } else if (name == "neon") {
    table = neon();
  } else {
    return Error::not_found("there is no instruction set '{}'", name)
        .with_hint("use scalar, avx2, avx512 or neon");
  }
  if (table == nullptr) {
    return Error::unsupported("this machine cannot run '{}'", name)
        .with_hint("leave KVASIR_ISA unset to use the best one it has");
  }
  return table;
}

Result<const KernelTable*> select_table() {
  const char* name = std::getenv("KVASIR_ISA");
  if (name != nullptr && *name != '\0') {
    auto table = find_table(name);
    if (!table) return std::move(table.error()).in("KVASIR_ISA");
    return table;
  }
  const KernelTable* best = &scalar();
  for (const KernelTable* table : available_tables()) {
    if (table != nullptr) best = table;
  }
  return best;
}

}  // namespace kvasir::kernels
