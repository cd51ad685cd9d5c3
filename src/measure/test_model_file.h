// For *_test.cc only: a very small model of random f32 weights.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "kernels/kernels.h"
#include "model/model.h"
#include "model/synthesis.h"

namespace kvasir::measure {

class TestModelFile {
 public:
  explicit TestModelFile(model::Architecture architecture) {
    model::SynthesisPlan plan = model::small_plan(architecture);
    static int count = 0;
    path_ = (std::filesystem::temp_directory_path() /
             fmt::format("kvasir-measure-test-{}-{}.gguf", ::getpid(), ++count))
                .string();
    const auto written = model::write_synthetic(plan, path_, nullptr);
    KVASIR_CHECK(written.has_value());
    auto file = gguf::ModelFile::open(path_);
    KVASIR_CHECK(file.has_value());
    auto model = model::bind_model(std::make_shared<const gguf::ModelFile>(std::move(*file)),
                                   kernels::is_supported);
    KVASIR_CHECK(model.has_value());
    model_ = std::move(*model);
  }
  ~TestModelFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TestModelFile(const TestModelFile&) = delete;
  TestModelFile& operator=(const TestModelFile&) = delete;

  const model::Model& model() const { return model_; }

 private:
  std::string path_;
  model::Model model_;
};

}  // namespace kvasir::measure
