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

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;  // natural logarithm, at most 0
};
struct Logprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // descending, equal ones by lower id
};

// The largest number of alternatives that can be asked for, as in the OpenAI API.
inline constexpr size_t kTopLogprobsMax = 20;

// What the model itself says, log softmax of its logits: before biases, penalties, temperature and
// every restriction, so that the numbers do not depend on how one samples. A token that was forced
// against the model's will shows as unlikely. Defined to the bit, as the sampler is.
// logits: [n_vocab], finite; token: an index into them. `never` ids are not listed in `top`.
Logprobs logprobs_of(std::span<const float> logits, int32_t token, size_t n_top,
                     std::span<const int32_t> never);

// One per generation, one thread. Equal options, logits and history give equal tokens on every
// machine. Options have passed check().
class Sampler {
 public:
  // `never`: ids that must not be sampled (padding rows of the head).
  Sampler(SamplerOptions options, std::vector<int32_t> never);

  // The history that penalties look at: prompt and generated tokens.
  void accept(int32_t token);
  // logits: [n_vocab], at least one. A value that is not finite is never sampled. If nothing is
  // left to choose from: the lowest id that is allowed and outside `never`, or 0 if there is none.
  // allowed: bit id % 64 of word id / 64 for every id that may be sampled, ids beyond it may not;
  // empty: all may.
  int32_t sample(std::span<const float> logits, std::span<const uint64_t> allowed = {});

 private:
  struct Candidate {
    float score;
    int32_t id;
    uint64_t weight;  // exp((score - best) / temperature) in units of 2^-40
  };
  static bool better(const Candidate& a, const Candidate& b);

  void adjust(std::span<const float> logits, std::span<const uint64_t> allowed);
  std::optional<int32_t> best_id() const;
  int32_t fallback_id(std::span<const uint64_t> allowed) const;
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
