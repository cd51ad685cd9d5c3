// What `kvasir --version` prints.
#pragma once

#include <string>

namespace kvasir::cli {

// Of the program, as in CMakeLists.txt (a test compares them).
inline constexpr const char* kVersion = "0.1.0";

// Program, arithmetic version and the kernels this machine can run. Ends without a line end.
std::string version_text();

}  // namespace kvasir::cli
