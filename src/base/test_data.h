// Where tests find their files. For *_test.cc only: KVASIR_SOURCE_DIR is defined for tests alone.
//
// Small reference files are in tests/data. The larger ones (the "golden" folder) are not part of
// the repository; a test that needs them begins with
// KVASIR_NEED_GOLDEN("tokenizer/qwen3-vocab.gguf").
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#ifndef KVASIR_SOURCE_DIR
#error "base/test_data.h is for tests: KVASIR_SOURCE_DIR is not defined"
#endif

namespace kvasir {

// A file of the repository: source_path("models/kvasir-tales-q4_k_m.gguf").
inline std::string source_path(std::string_view path) {
  return (std::filesystem::path(KVASIR_SOURCE_DIR) / path).string();
}

// A file of tests/data: test_data("tokenizer/qwen3.json").
inline std::string test_data(std::string_view path) {
  return (std::filesystem::path(KVASIR_SOURCE_DIR) / "tests" / "data" / path).string();
}

// $KVASIR_GOLDEN, or the folder ../shared/golden beside the repository. May not exist.
inline std::string golden_dir() {
  const char* chosen = std::getenv("KVASIR_GOLDEN");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return (std::filesystem::path(KVASIR_SOURCE_DIR) / ".." / "shared" / "golden").string();
}

// A file of the golden folder: golden_data("logits/tiny-f32.ids").
inline std::string golden_data(std::string_view path) {
  return (std::filesystem::path(golden_dir()) / path).string();
}

inline bool golden_exists(std::string_view path) {
  std::error_code ignored;
  return std::filesystem::exists(golden_data(path), ignored);
}

// Skips the test, in one line, where a golden file is absent.
#define KVASIR_NEED_GOLDEN(path)                                                   \
  if (!::kvasir::golden_exists(path))                                              \
  GTEST_SKIP() << "skipped: " << ::kvasir::golden_data(path) << " is absent (set " \
               << "KVASIR_GOLDEN to the folder of reference data)"

}  // namespace kvasir
