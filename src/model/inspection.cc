#include "model/inspection.h"

#include <algorithm>
#include <memory>

#include "gguf/text_check.h"
#include "model/model.h"
#include "model/tensor_names.h"

namespace kvasir::model {
namespace {

using gguf::ModelFile;

// Absent, of another type or no text: what is wrong with it is for the model's reader to say.
std::string text_or_empty(const ModelFile& file, std::string_view key) {
  const auto text = file.metadata().get_string(key);
  return text ? std::string(*text) : std::string();
}

// Bytes of one expert of one block, 0 if the block holds no (complete) experts.
uint64_t expert_bytes(const ModelFile& file, const HyperParameters& hp, uint32_t block) {
  uint64_t sum = 0;
  const auto add = [&](std::string_view name) {
    const gguf::TensorView* tensor = file.find(block_prefix(block) + std::string(name) + ".weight");
    if (tensor == nullptr || tensor->info->dims[2] != hp.n_experts) return false;
    sum += tensor->info->bytes / hp.n_experts;
    return true;
  };
  const bool has_gate_up = add("ffn_gate_up_exps") || (add("ffn_gate_exps") && add("ffn_up_exps"));
  return has_gate_up && add("ffn_down_exps") ? sum : 0;
}

void count_experts(const ModelFile& file, Inspection& result) {
  const HyperParameters& hp = result.hp;
  for (uint32_t block = 0; block < hp.n_layers + hp.n_mtp_blocks; ++block) {
    const uint64_t bytes = expert_bytes(file, hp, block);
    if (bytes == 0) continue;
    const bool is_first = result.experts_total == 0;
    result.expert_bytes_min = is_first ? bytes : std::min(result.expert_bytes_min, bytes);
    result.expert_bytes_max = std::max(result.expert_bytes_max, bytes);
    result.experts_total += hp.n_experts;
    if (block < hp.n_layers) result.experts_main += hp.n_experts;
    result.all_expert_bytes += bytes * hp.n_experts;
  }
  if (result.experts_total == 0) return;
  result.expert_bytes_mean =
      static_cast<double>(result.all_expert_bytes) / static_cast<double>(result.experts_total);
  result.expert_share =
      static_cast<double>(result.all_expert_bytes) / static_cast<double>(result.weight_bytes);
}

// "12 tensors have no role here, the first is 'v.patch_embd.weight'"
std::string ignored_note(const std::vector<std::string>& names) {
  return fmt::format("{} tensor{} without a role here, the first is '{}'", names.size(),
                     names.size() == 1 ? "" : "s", gguf::printable(names.front()));
}

// Draft blocks are counted by the metadata; whether they are there is another matter.
std::vector<std::string> ignored_outside_drafts(const Model& model) {
  std::vector<std::string> names;
  for (const std::string& name : model.ignored_tensors) {
    bool is_draft = false;
    for (uint32_t i = 0; i < model.hp.n_mtp_blocks; ++i)
      is_draft = is_draft || name.starts_with(block_prefix(model.hp.n_layers + i));
    if (!is_draft) names.push_back(name);
  }
  return names;
}

void add_notes(const Model& model, Inspection& result) {
  const std::vector<std::string> ignored = ignored_outside_drafts(model);
  if (!ignored.empty()) result.notes.push_back(ignored_note(ignored));
  if (model.hp.n_mtp_blocks > 0 && ignored.size() == model.ignored_tensors.size())
    result.notes.emplace_back("the metadata announce an MTP block, the file holds none");
}

}  // namespace

Result<Inspection> inspect(const ModelFile& file, bool (*is_supported)(gguf::TensorType)) {
  Inspection result;
  result.architecture = text_or_empty(file, "general.architecture");
  result.name = text_or_empty(file, "general.name");
  result.file_bytes = file.file_bytes();
  result.weight_bytes = file.tensor_bytes();
  result.parts = file.parts();
  result.tensors = file.tensors().size();
  for (const gguf::TensorView& tensor : file.tensors()) {
    TypeUse& use = result.types[std::string(gguf::type_info(tensor.info->type).name)];
    ++use.tensors;
    use.bytes += tensor.info->bytes;
  }

  auto hp = read_hyper_parameters(file.metadata());
  if (hp) result.hp = std::move(*hp);
  // The model lives no longer than this function, so it need not own the file.
  const std::shared_ptr<const ModelFile> borrowed(std::shared_ptr<void>(), &file);
  auto model = bind_model(borrowed, is_supported, VectorCheck::kNone);
  if (model) {
    result.supported = true;
    result.hp = model->hp;  // with what the tensors add to the dialect notes
  } else {
    result.why_unsupported = model.error().message;
    if (!model.error().hint.empty()) result.why_unsupported += " (" + model.error().hint + ")";
  }
  if (result.hp.n_layers == 0) return result;

  result.notes = result.hp.dialect_notes;
  if (model) add_notes(*model, result);
  count_experts(file, result);
  result.kv_bytes_per_token_f16 = result.hp.kv_bytes_per_token(2);
  result.kv_bytes_per_token_f32 = result.hp.kv_bytes_per_token(4);
  result.state_bytes_per_sequence = result.hp.state_bytes_per_sequence();
  return result;
}

}  // namespace kvasir::model
