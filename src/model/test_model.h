// For *_test.cc only: a model file taken to pieces, so that a test can change one thing, write it
// again and see what the reader says.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gguf/model_file.h"
#include "gguf/writer.h"
#include "model/model.h"
#include "model/synthesis.h"

namespace kvasir::model {

// A file name nobody else uses; the file is removed with this object.
class ScratchFile {
 public:
  ScratchFile() {
    static int count = 0;
    path_ = (std::filesystem::temp_directory_path() /
             fmt::format("kvasir-model-test-{}-{}.gguf", ::getpid(), ++count))
                .string();
  }
  ~ScratchFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::shared_ptr<const gguf::ModelFile> open_file(const std::string& path) {
  auto file = gguf::ModelFile::open(path);
  if (!file) ADD_FAILURE() << file.error().message;
  return std::make_shared<const gguf::ModelFile>(std::move(file.value()));
}

inline bool any_type(TensorType) {
  return true;
}

struct TensorPiece {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<uint64_t> dims;
  std::vector<std::byte> data;

  void set_float(size_t index, float value) { store_le(data.data() + 4 * index, value); }
};

// Two layers (delta-net, attention), four experts, top-2: as small as it gets.
inline SynthesisPlan tiny_plan(Architecture architecture = Architecture::kQwen35Moe) {
  SynthesisPlan plan = small_plan(architecture);
  HyperParameters& hp = plan.hp;
  hp.n_layers = 2;
  hp.layer_kinds = {LayerKind::kDeltaNet, LayerKind::kAttention};
  if (architecture == Architecture::kQwen3Moe) hp.layer_kinds[0] = LayerKind::kAttention;
  hp.n_embd = 64;
  hp.n_experts = 4;
  hp.expert_width = 32;
  if (architecture == Architecture::kQwen35Moe) {
    hp.shared_expert_width = 32;
    hp.delta_head_dim = 16;
  }
  return plan;
}

// One test's own; the keys it holds are views into the file it was made from.
class ModelPieces {
 public:
  explicit ModelPieces(const SynthesisPlan& plan) {
    ScratchFile scratch;
    auto written = write_synthetic(plan, scratch.path(), nullptr);
    if (!written) ADD_FAILURE() << written.error().message;
    source_ = open_file(scratch.path());
    for (const gguf::Value& value : source_->metadata().values())
      keys_.push_back(
          {std::string(value.key), [&value](gguf::Writer& writer) { writer.add_value(value); }});
    for (const gguf::TensorView& view : source_->tensors()) {
      const auto& dims = view.info->dims;
      tensors_.push_back({view.info->name,
                          view.info->type,
                          {dims.begin(), dims.begin() + view.info->n_dims},
                          {view.data.begin(), view.data.end()}});
    }
  }

  std::vector<std::string> key_names() const {
    std::vector<std::string> names;
    for (const auto& [name, add] : keys_) names.push_back(name);
    return names;
  }
  ModelPieces& remove_key(const std::string& name) {
    std::erase_if(keys_, [&](const auto& key) { return key.first == name; });
    return *this;
  }
  ModelPieces& set_u32(const std::string& name, uint32_t value) {
    return set(name, [=](gguf::Writer& writer) { writer.add_u32(name, value); });
  }
  ModelPieces& set_f32(const std::string& name, float value) {
    return set(name, [=](gguf::Writer& writer) { writer.add_f32(name, value); });
  }
  ModelPieces& set_bool(const std::string& name, bool value) {
    return set(name, [=](gguf::Writer& writer) { writer.add_bool(name, value); });
  }
  ModelPieces& set_string(const std::string& name, const std::string& value) {
    return set(name, [=](gguf::Writer& writer) { writer.add_string(name, value); });
  }
  ModelPieces& set_i32s(const std::string& name, const std::vector<int32_t>& values) {
    return set(name, [=](gguf::Writer& writer) { writer.add_i32s(name, values); });
  }

  const std::vector<TensorPiece>& tensors() const { return tensors_; }
  TensorPiece& tensor(const std::string& name) {
    auto found = std::find_if(tensors_.begin(), tensors_.end(),
                              [&](const TensorPiece& piece) { return piece.name == name; });
    KVASIR_CHECK(found != tensors_.end());
    return *found;
  }
  // The piece taken out.
  TensorPiece take_tensor(const std::string& name) {
    TensorPiece piece = tensor(name);
    std::erase_if(tensors_, [&](const TensorPiece& one) { return one.name == name; });
    return piece;
  }
  ModelPieces& remove_tensors_with(const std::string& prefix) {
    std::erase_if(tensors_,
                  [&](const TensorPiece& piece) { return piece.name.starts_with(prefix); });
    return *this;
  }
  // All zero.
  ModelPieces& add_tensor(const std::string& name, TensorType type, std::vector<uint64_t> dims) {
    TensorPiece piece{name, type, std::move(dims), {}};
    resize(piece);
    tensors_.push_back(std::move(piece));
    return *this;
  }
  // Data to fit type and dims, new bytes zero.
  static void resize(TensorPiece& piece) {
    uint64_t bytes = gguf::row_bytes(piece.type, piece.dims[0]);
    for (size_t i = 1; i < piece.dims.size(); ++i) bytes *= piece.dims[i];
    piece.data.resize(bytes);
  }

  std::shared_ptr<const gguf::ModelFile> open() const {
    gguf::Writer writer;
    for (const auto& [name, add] : keys_) add(writer);
    for (const TensorPiece& piece : tensors_) writer.add_tensor(piece.name, piece.type, piece.dims);
    ScratchFile scratch;
    auto written =
        writer.write(scratch.path(),
                     [&](const gguf::Writer::Planned& planned, uint64_t offset,
                         std::span<std::byte> out) -> Result<void> {
                       const auto index = static_cast<size_t>(&planned - writer.tensors().data());
                       std::copy_n(tensors_[index].data.begin() + static_cast<ptrdiff_t>(offset),
                                   out.size(), out.begin());
                       return {};
                     });
    if (!written) ADD_FAILURE() << written.error().message;
    return open_file(scratch.path());
  }

  Result<Model> bind(bool (*is_supported)(TensorType) = any_type) const {
    return bind_model(open(), is_supported);
  }

 private:
  using AddKey = std::function<void(gguf::Writer&)>;

  ModelPieces& set(const std::string& name, AddKey add) {
    remove_key(name);
    keys_.emplace_back(name, std::move(add));
    return *this;
  }

  std::shared_ptr<const gguf::ModelFile> source_;
  std::vector<std::pair<std::string, AddKey>> keys_;
  std::vector<TensorPiece> tensors_;
};

}  // namespace kvasir::model
