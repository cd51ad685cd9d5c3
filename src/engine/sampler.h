// From logits to a token: the sampler chain of docs/arithmetic.md, section "Sampler".
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"

namespace kvasir::engine {

struct SamplerOptions {
  float temperature = 0.8F;         // 0: argmax, the lowest id of equals
  uint32_t top_k = 40;              // 0: off
  float top_p = 0.95F;              // 1: off
  float min_p = 0.0F;               // 0: off
  float repetition_penalty = 1.0F;  // 1: off; on the last `penalty_window` tokens
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  uint32_t penalty_window = 64;  // 0: all tokens
  std::vector<std::pair<int32_t, float>> logit_bias;
  uint64_t seed = 0;
};
// kInvalid naming the option, its value and the allowed range (NaN included).
Result<void> check(const SamplerOptions& options);

// xoshiro256**, its state filled by splitmix64 from one 64-bit seed.
class RandomGenerator {
 public:
  explicit RandomGenerator(uint64_t seed);
  uint64_t next();

 private:
  std::array<uint64_t, 4> state_;
};

// One per generation, one thread. Equal options, logits and history give equal tokens on every
// machine. Options have passed check().
class Sampler {
 public:
  // `never`: ids that must not be sampled (padding rows of the head).
  Sampler(SamplerOptions options, std::vector<int32_t> never);

  // The history that penalties look at: prompt and generated tokens.
  void accept(int32_t token);
  // logits: [n_vocab], at least one. A value that is not finite is never sampled. If nothing is
  // left to choose from: the lowest id outside `never`, or 0 if there is none.
  int32_t sample(std::span<const float> logits);

 private:
  struct Candidate {
    float score;
    int32_t id;
    uint64_t weight;  // exp((score - best) / temperature) in units of 2^-40
  };
  static bool better(const Candidate& a, const Candidate& b);

  void adjust(std::span<const float> logits);
  std::optional<int32_t> best_id() const;
  int32_t fallback_id() const;
  void select_top_k();
  void weigh(float best_score);
  // The first candidates in order, as many as it takes until enough(their weights' sum).
  struct Prefix {
    size_t count;
    uint64_t weight;
    int32_t last_id;
  };
  template <typename Enough>
  Prefix shortest_prefix(size_t count, Enough enough);
  uint64_t weight_above(double weight_min) const;
  int32_t draw();

  SamplerOptions options_;
  std::vector<int32_t> never_;  // sorted
  bool penalises_;
  std::deque<int32_t> history_;  // the window, oldest first
  std::unordered_map<int32_t, uint32_t> history_counts_;
  RandomGenerator random_;
  std::vector<float> scores_;  // adjusted logits; NaN: removed
  std::vector<Candidate> candidates_;
};

}  // namespace kvasir::engine
