// What the end-to-end tests have in common: calls of the executable, files, a folder per test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/test_folder.h"
#include "process.h"

namespace kvasir::testing {

inline const std::string kBundled = KVASIR_SOURCE_DIR "/models/kvasir-tales-q4_k_m.gguf";

inline std::vector<std::string> command(std::vector<std::string> words) {
  words.insert(words.begin(), KVASIR_EXECUTABLE);
  return words;
}

// The executable lies in a build folder that may be anywhere, so the bundled model is named. The
// settings of whoever runs the tests are not read.
inline ProcessOptions with_model(ProcessOptions options = {}) {
  options.environment.emplace("KVASIR_MODEL", kBundled);
  options.environment.emplace("KVASIR_CONFIG", "/dev/null");
  return options;
}

inline ProcessResult kvasir_run(std::vector<std::string> words, ProcessOptions options = {}) {
  return run_process(command(std::move(words)), with_model(std::move(options)));
}

inline ProcessOptions with_stdin(std::string text) {
  ProcessOptions options;
  options.stdin_text = std::move(text);
  return options;
}

inline ProcessOptions with_isa(const std::string& name) {
  ProcessOptions options;
  options.environment["KVASIR_ISA"] = name;
  return options;
}

inline std::string output_of(std::vector<std::string> words, ProcessOptions options = {}) {
  ProcessResult result = kvasir_run(std::move(words), std::move(options));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

inline std::string file_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A folder of its own for each test.
class Cli : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }

 private:
  TestFolder folder_;
};

}  // namespace kvasir::testing
