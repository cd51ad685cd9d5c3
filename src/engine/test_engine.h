// For *_test.cc only: a model file with everything that it takes to run it.
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "expert/local_expert_service.h"

namespace kvasir::engine {

struct RunSettings {
  EngineOptions options;
  const kernels::KernelTable* kernels = &kernels::scalar();
  size_t threads = 1;
};

class TestEngine {
 public:
  TestEngine(const std::string& path, const RunSettings& settings)
      : TestEngine(open_model(path), settings) {}
  TestEngine(model::Model model, const RunSettings& settings)
      : model_(std::move(model)),
        pool_(settings.threads),
        experts_(local_experts(model_), *settings.kernels, pool_),
        engine_(model_, *settings.kernels, pool_, experts_, settings.options) {}

  const model::Model& model() const { return model_; }
  Engine& engine() { return engine_; }
  size_t n_vocab() const { return model_.hp.n_vocab; }

  std::unique_ptr<Sequence> new_sequence(size_t context) {
    auto sequence = engine_.new_sequence(context);
    KVASIR_CHECK(sequence.has_value());
    return std::move(*sequence);
  }

  // Appends tokens to a sequence in one call; the logits of each. Fails the test on an error.
  std::vector<float> append(Sequence& sequence, std::span<const int32_t> ids) {
    std::vector<Row> rows;
    for (int32_t id : ids) rows.push_back({&sequence, id, true});
    std::vector<float> logits(ids.size() * n_vocab());
    auto failures = engine_.forward(rows, logits);
    if (!failures)
      ADD_FAILURE() << failures.error().message;
    else if (!failures->empty())
      ADD_FAILURE() << failures->front().error.message;
    return logits;
  }

  // The logits of every position of a new sequence, computed `chunk` rows at a time.
  std::vector<float> logits(std::span<const int32_t> ids, size_t chunk) {
    auto sequence = new_sequence(ids.size());
    std::vector<float> all;
    for (size_t begin = 0; begin < ids.size(); begin += chunk) {
      const auto part = append(*sequence, ids.subspan(begin, std::min(chunk, ids.size() - begin)));
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  // Stops the test program, with the reason, if the model cannot be opened.
  static model::Model open_model(const std::string& path) {
    auto file = gguf::ModelFile::open(path);
    if (!file) fmt::print(stderr, "{}\n", file.error().message);
    KVASIR_CHECK(file.has_value());
    auto model = model::bind_model(std::make_shared<const gguf::ModelFile>(std::move(*file)),
                                   kernels::is_supported);
    if (!model) fmt::print(stderr, "{}\n", model.error().message);
    KVASIR_CHECK(model.has_value());
    return std::move(*model);
  }

 private:
  model::Model model_;
  ThreadPool pool_;
  expert::LocalExpertService experts_;
  Engine engine_;
};

// "68,291,32" in a file, as ids.
inline std::vector<int32_t> read_ids(const std::string& path) {
  std::ifstream file(path);
  std::vector<int32_t> ids;
  for (std::string id; std::getline(file, id, ',');) ids.push_back(std::stoi(id));
  return ids;
}

// A file of little-endian values.
template <typename T>
std::vector<T> read_values(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<T> values(file ? static_cast<size_t>(file.tellg()) / sizeof(T) : 0);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(T)));
  return values;
}

}  // namespace kvasir::engine
