// What `kvasir bench` prints. Pure.
#pragma once

#include <string>

#include "measure/model_speed.h"

namespace kvasir::cli {

// What the figures are of; texts as they are in the file.
struct BenchSubject {
  std::string path;
  std::string model;  // general.name, or the architecture
  std::string kernels;
  std::string int8_instruction;
  uint64_t weight_bytes = 0;
};

// Units are powers of ten: GB/s, TOP/s.
std::string bench_text(const BenchSubject& subject, const measure::Plan& plan,
                       const measure::Report& report);
std::string bench_json(const BenchSubject& subject, const measure::Plan& plan,
                       const measure::Report& report);

}  // namespace kvasir::cli
