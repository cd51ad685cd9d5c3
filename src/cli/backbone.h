// What makes a session a backbone: a door for workers, a dispatcher, and the expert service over
// both.
#pragma once

#include <memory>
#include <string>

#include "base/thread_pool.h"
#include "cli/options.h"
#include "crypto/identity.h"
#include "engine/engine.h"
#include "model/model.h"
#include "swarm/swarm_expert_service.h"
#include "swarm/swarm_listener.h"

namespace kvasir::cli {

// The compute fingerprint of a model, which is hashed unless that is known from an earlier run.
// kIo if Ctrl-C stopped it.
struct ModelIdentity {
  std::string hash;
  uint32_t group_size = 0;
};
Result<ModelIdentity> identify_model(const model::Model& model, std::optional<uint64_t> threads);
wire::Fingerprint fingerprint_of(const std::string& model_hash,
                                 const engine::EngineOptions& options);

// What the flags say of how a swarm is to be worked with.
swarm::DispatchOptions dispatch_options(const SwarmFlags& flags,
                                        const engine::EngineOptions& options);
Result<crypto::Identity> identity_of(const SwarmFlags& flags);
Result<swarm::GateOptions> gate_options(const SwarmFlags& flags, const std::string& model_hash,
                                        const engine::EngineOptions& options);

// One thread, but for what its parts allow.
class Backbone {
 public:
  // Listens, says where on standard error, and waits for --wait-workers. All but `flags` outlive
  // this; `local` can compute every expert.
  static Result<std::unique_ptr<Backbone>> open(const SwarmFlags& flags, const model::Model& model,
                                                const ModelIdentity& model_identity,
                                                const engine::EngineOptions& options,
                                                expert::ExpertService& local,
                                                const kernels::KernelTable& kernels,
                                                ThreadPool& pool);
  ~Backbone();  // writes the report

  swarm::SwarmExpertService& experts() { return *experts_; }
  swarm::SwarmStatus status();
  uint16_t port() const { return listener_->port(); }

 private:
  explicit Backbone(crypto::Identity identity) : identity_(std::move(identity)) {}
  Result<void> wait_for_workers(uint64_t count);

  crypto::Identity identity_;
  std::string report_path_;
  std::unique_ptr<swarm::SharedDispatcher> dispatcher_;
  std::unique_ptr<swarm::SwarmExpertService> experts_;
  std::unique_ptr<swarm::SwarmListener> listener_;
};

// A line of a trace: one step (forward pass) and the calls of its layers.
std::string step_json(uint64_t step, size_t rows, uint64_t total_us,
                      const std::vector<swarm::CallRecord>& calls);

}  // namespace kvasir::cli
