// For tests of the worker that cross modules: the bundled model, its manifest, slices of it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/test_folder.h"
#include "engine/engine.h"
#include "gguf/slice_writer.h"
#include "model/model_manifest.h"

namespace kvasir::testing {

// Hashed once per process.
class WorkerModel {
 public:
  static const WorkerModel& bundled() {
    static const WorkerModel model;
    return model;
  }

  const std::string path = KVASIR_SOURCE_DIR "/models/kvasir-tales-q4_k_m.gguf";
  const gguf::Manifest& manifest() const { return *manifest_; }
  std::vector<expert::LayerExperts> experts() const { return engine::local_experts(*model_); }

  std::string write_manifest(const TestFolder& folder) const {
    return folder.write("model.manifest", bytes_of(manifest_->text()));
  }
  // Of these layers; experts begin..end - 1 of each.
  std::string write_slice(const TestFolder& folder, const std::string& name,
                          std::vector<uint32_t> layers, gguf::ExpertRange experts) const {
    auto written = gguf::write_slice(*model_->file, *manifest_, {std::move(layers), experts},
                                     folder.path(name), [](uint64_t, uint64_t) { return true; });
    if (!written) ADD_FAILURE() << written.error().message;
    return folder.path(name);
  }

 private:
  WorkerModel() {
    auto file = gguf::ModelFile::open(path);
    if (!file) ADD_FAILURE() << file.error().message;
    auto model = model::bind_model(std::make_shared<const gguf::ModelFile>(std::move(file.value())),
                                   kernels::is_supported);
    if (!model) ADD_FAILURE() << model.error().message;
    model_.emplace(std::move(model.value()));
    ThreadPool pool(2);
    auto manifest = model::make_manifest(*model_, pool, nullptr);
    if (!manifest) ADD_FAILURE() << manifest.error().message;
    manifest_.emplace(std::move(manifest.value().value()));
  }

  std::optional<model::Model> model_;
  std::optional<gguf::Manifest> manifest_;
};

// One byte at `offset` becomes another.
inline void damage(const std::string& path, uint64_t offset) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(offset));
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(byte);
}

}  // namespace kvasir::testing
