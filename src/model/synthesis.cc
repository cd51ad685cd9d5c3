#include "model/synthesis.h"

#include <cmath>
#include <unordered_map>

#include "gguf/writer.h"
#include "model/random_blocks.h"
#include "model/synthesis_parts.h"

namespace kvasir::model {
namespace {

Result<void> check_plan(const SynthesisPlan& plan) {
  if (auto checked = check_hyper_parameters(plan.hp); !checked)
    return Error::invalid("cannot synthesise: {}", checked.error().message);
  if (plan.hp.n_vocab < kSynthesisVocabularyMin)
    return Error::invalid("cannot synthesise: a vocabulary of {} entries, must be at least {}",
                          plan.hp.n_vocab, kSynthesisVocabularyMin);
  if (!can_fill(plan.type))
    return Error::unsupported("cannot synthesise weights of type {}",
                              gguf::type_info(plan.type).name);
  return {};
}

// Bytes of a tensor depend on its name and the plan's seed, not on what else is in the file.
uint64_t tensor_seed(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325 ^ seed;  // FNV-1a
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

// Header and tensor list of one plan.
struct Blueprint {
  gguf::Writer writer;
  std::vector<SynthesisTensor> tensors;
};

Result<Blueprint> make_blueprint(const SynthesisPlan& plan) {
  KVASIR_TRY_VOID(check_plan(plan));
  Blueprint blueprint;
  add_synthesis_metadata(blueprint.writer, plan);
  blueprint.tensors = synthesis_tensors(plan);
  for (const SynthesisTensor& tensor : blueprint.tensors)
    blueprint.writer.add_tensor(tensor.name, tensor.type, tensor.dims);
  return blueprint;
}

}  // namespace

Result<void> write_synthetic(const SynthesisPlan& plan, const std::string& path,
                             const Progress& progress) {
  KVASIR_TRY(Blueprint blueprint, make_blueprint(plan));
  std::unordered_map<std::string_view, const SynthesisTensor*> by_name;
  for (const SynthesisTensor& tensor : blueprint.tensors) by_name[tensor.name] = &tensor;

  uint64_t all_bytes = 0;
  for (const auto& planned : blueprint.writer.tensors()) all_bytes += planned.bytes;
  uint64_t done_bytes = 0;
  const auto fill = [&](const gguf::Writer::Planned& planned, uint64_t offset,
                        std::span<std::byte> out) -> Result<void> {
    const SynthesisTensor& tensor = *by_name.at(planned.name);
    const uint64_t seed = tensor_seed(plan.seed, tensor.name);
    if (tensor.spread > 0)
      fill_random_weights(tensor.type, tensor.spread, seed, offset, out);
    else
      fill_uniform(tensor.low, tensor.high, seed, offset, out);
    done_bytes += out.size();
    if (progress) return progress(done_bytes, all_bytes);
    return {};
  };
  return blueprint.writer.write(path, fill);
}

Result<void> write_skeleton(const SynthesisPlan& plan, const std::string& path) {
  KVASIR_TRY(Blueprint blueprint, make_blueprint(plan));
  return blueprint.writer.write_sparse(path);
}

}  // namespace kvasir::model
