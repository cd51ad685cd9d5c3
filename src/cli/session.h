// A model ready to compute: file, weights by role, threads, expert service and engine, wired
// together.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "cli/backbone.h"
#include "cli/options.h"
#include "cli/output.h"
#include "engine/engine.h"
#include "engine/memory_fit.h"
#include "engine/sampler.h"
#include "expert/stored_expert_service.h"
#include "text/tokenizer.h"

namespace kvasir::cli {

// The file the flags name; without -m $KVASIR_MODEL, then the model that comes with the program.
Result<std::shared_ptr<const gguf::ModelFile>> open_model_file(const ModelFlags& flags);

// Context of generate and chat without --ctx: what the model was trained on, but no more than
// costs little memory.
uint64_t default_context(const model::HyperParameters& hp);

// The flags over the model's own settings. kInvalid for a bias of a token that is not there.
Result<engine::SamplerOptions> sampler_options(const SamplingFlags& flags,
                                               const gguf::Metadata& metadata, uint64_t n_vocab);

// What to tell whose model is larger than the memory; empty if it is not.
std::string reading_note(uint64_t weight_bytes, uint64_t available_bytes);

// Asks the kernel to read the whole file in, so that the first tokens do not wait for the disk,
// page by page. Not if the weights would push each other out again.
void preload(const gguf::ModelFile& file, uint64_t available_bytes);

// Ids that must not be sampled: unused tokens, and rows of the head without a token.
std::vector<text::TokenId> never_sampled(const text::Tokenizer& tokenizer, size_t n_vocab);

// One thread.
class Session {
 public:
  // Checks that a sequence of `context` tokens fits into memory, then reads the weights in.
  static Result<std::unique_ptr<Session>> open(const std::shared_ptr<const gguf::ModelFile>& file,
                                               const ComputeFlags& flags, uint64_t context);
  // Without engine and swarm, for callers with engines of their own over parts(). extra_bytes: of
  // memory that they will take.
  static Result<std::unique_ptr<Session>> open_parts(
      const std::shared_ptr<const gguf::ModelFile>& file, const ComputeFlags& flags,
      uint64_t context, uint64_t extra_bytes = 0);
  ~Session();

  ThreadPool& pool() { return *pool_; }
  expert::ExpertService& local_experts() { return *experts_; }
  engine::Engine& engine() { return *engine_; }
  const model::Model& model() const { return model_; }
  const kernels::KernelTable& kernels() const { return *kernels_; }
  const engine::EngineOptions& options() const { return options_; }
  const engine::MemoryNeed& memory() const { return memory_; }
  // Null where experts are read through the map.
  const expert::StoredExpertService* store() const { return store_; }
  size_t n_vocab() const { return model_.hp.n_vocab; }
  size_t threads() const { return pool_->threads(); }
  size_t context() const { return context_; }
  Result<std::unique_ptr<engine::Sequence>> new_sequence() {
    return engine_->new_sequence(context_);
  }
  // Null where nobody else computes.
  Backbone* backbone() { return backbone_.get(); }

  // Engine::forward(). kUntrusted if a worker that has answered for this sequence turned out to
  // lie: it has to be computed again from its beginning, and what it gave may have been wrong.
  Result<std::vector<engine::SequenceFailure>> forward(const engine::Sequence& sequence,
                                                       std::span<const engine::Row> rows,
                                                       std::span<float> logits);

 private:
  Session() = default;
  // How many bytes of experts to keep in a store; nothing: map them all. Adds them to memory_.
  Result<std::optional<uint64_t>> plan_store(const ExpertRam& flag, uint64_t available);
  Result<void> make_experts(std::optional<uint64_t> store_bytes);
  Result<void> open_swarm(const ComputeFlags& flags, const engine::EngineOptions& options);

  // In the order in which they refer to each other.
  model::Model model_;
  const kernels::KernelTable* kernels_ = nullptr;
  engine::EngineOptions options_;
  engine::MemoryNeed memory_;
  size_t context_ = 0;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<expert::ExpertService> experts_;
  const expert::StoredExpertService* store_ = nullptr;  // experts_, if that is a store
  std::unique_ptr<Backbone> backbone_;
  std::unique_ptr<engine::Engine> engine_;
  std::optional<Output> trace_;
  uint64_t steps_ = 0;
};

}  // namespace kvasir::cli
