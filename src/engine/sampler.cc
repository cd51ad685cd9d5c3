#include "engine/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/canonical_math.h"
#include "kernels/scalar.h"

namespace kvasir::engine {
namespace {

constexpr float kRemoved = std::numeric_limits<float>::quiet_NaN();

// exp() becomes an integer of 40 fractional bits. Sums of integers are exact in any order, so no
// rounding rule has to be stated for totals and prefixes. Much more: 2^22 candidates (the largest
// vocabulary) of full weight would overflow 64 bits. Less: rare tokens could never be drawn.
constexpr double kWeightOne = 0x1p40;
// exp(-28) is 0.76 * 2^-40: from here on everything rounds down to no weight at all.
constexpr float kWeightlessBelow = -28.0F;

// More: time goes into sorting. Less: into cutting in two.
constexpr size_t kSortedMax = 256;

constexpr float kTemperatureMax = 100.0F;
constexpr float kRepetitionMin = 0.01F;
constexpr float kRepetitionMax = 100.0F;
constexpr float kPenaltyMax = 100.0F;
constexpr float kBiasMax = 1000.0F;

Result<void> check_range(std::string_view name, float value, float min, float max) {
  if (value >= min && value <= max) return {};  // false for NaN
  return Error::invalid("{} is {}, allowed are {} to {}", name, value, min, max);
}

// The high half of a 64 x 64 bit product: floor(a * b / 2^64).
uint64_t multiply_high(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(static_cast<Wide>(a) * b >> 64);
}

bool is_allowed(std::span<const uint64_t> allowed, size_t id) {
  if (allowed.empty()) return true;
  return id / 64 < allowed.size() && (allowed[id / 64] >> (id % 64) & 1) != 0;
}

}  // namespace

Result<void> check(const SamplerOptions& options) {
  KVASIR_TRY_VOID(check_range("temperature", options.temperature, 0, kTemperatureMax));
  KVASIR_TRY_VOID(check_range("top-p", options.top_p, 0, 1));
  KVASIR_TRY_VOID(check_range("min-p", options.min_p, 0, 1));
  KVASIR_TRY_VOID(check_range("repetition penalty", options.repetition_penalty, kRepetitionMin,
                              kRepetitionMax));
  KVASIR_TRY_VOID(
      check_range("presence penalty", options.presence_penalty, -kPenaltyMax, kPenaltyMax));
  KVASIR_TRY_VOID(
      check_range("frequency penalty", options.frequency_penalty, -kPenaltyMax, kPenaltyMax));
  for (auto [id, bias] : options.logit_bias) {
    if (id < 0) return Error::invalid("logit bias for token {}: ids start at 0", id);
    KVASIR_TRY_VOID(
        check_range(fmt::format("logit bias of token {}", id), bias, -kBiasMax, kBiasMax));
  }
  return {};
}

RandomGenerator::RandomGenerator(uint64_t seed) {
  for (uint64_t& word : state_) {  // splitmix64
    seed += 0x9e3779b97f4a7c15U;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    word = z ^ (z >> 31);
  }
}

uint64_t RandomGenerator::next() {
  uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

Logprobs logprobs_of(std::span<const float> logits, int32_t token, size_t n_top,
                     std::span<const int32_t> never) {
  KVASIR_CHECK(token >= 0 && static_cast<size_t>(token) < logits.size());
  const float max = *std::max_element(logits.begin(), logits.end());
  const float sum = kernels::reference::rule16(
      logits.size(), [&](size_t id) { return kernels::canonical_exp(logits[id] - max); });
  const float log_sum = kernels::canonical_log(sum);
  const auto entry = [&](int32_t id) {
    return TokenLogprob{id, (logits[static_cast<size_t>(id)] - max) - log_sum};
  };

  std::vector<int32_t> top;  // by descending logit; a later id enters only above smaller ones
  const auto logit_of = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  for (size_t index = 0; index < logits.size() && n_top != 0; ++index) {
    const auto id = static_cast<int32_t>(index);
    if (top.size() == n_top && !(logits[index] > logit_of(top.back()))) continue;
    if (std::find(never.begin(), never.end(), id) != never.end()) continue;
    if (top.size() == n_top) top.pop_back();
    const auto place = std::find_if(top.begin(), top.end(),
                                    [&](int32_t each) { return logits[index] > logit_of(each); });
    top.insert(place, id);
  }
  Logprobs result{entry(token), {}};
  for (int32_t id : top) result.top.push_back(entry(id));
  return result;
}

Sampler::Sampler(SamplerOptions options, std::vector<int32_t> never)
    : options_(std::move(options)),
      never_(std::move(never)),
      penalises_(options_.repetition_penalty != 1.0F || options_.presence_penalty != 0.0F ||
                 options_.frequency_penalty != 0.0F),
      random_(options_.seed) {
  std::sort(never_.begin(), never_.end());
}

void Sampler::accept(int32_t token) {
  if (!penalises_) return;
  history_.push_back(token);
  ++history_counts_[token];
  if (options_.penalty_window == 0 || history_.size() <= options_.penalty_window) return;
  auto oldest = history_counts_.find(history_.front());
  if (--oldest->second == 0) history_counts_.erase(oldest);
  history_.pop_front();
}

int32_t Sampler::sample(std::span<const float> logits, std::span<const uint64_t> allowed) {
  KVASIR_CHECK(!logits.empty());
  adjust(logits, allowed);
  std::optional<int32_t> best = best_id();
  if (options_.temperature == 0.0F) return best ? *best : fallback_id(allowed);
  if (!best) {
    random_.next();  // one draw per token, whatever happens
    return fallback_id(allowed);
  }
  select_top_k();
  weigh(scores_[static_cast<size_t>(*best)]);
  return draw();
}

// Bias, removal and penalties, in this order; whatever is not finite afterwards is removed too.
void Sampler::adjust(std::span<const float> logits, std::span<const uint64_t> allowed) {
  scores_.assign(logits.begin(), logits.end());
  auto in_vocabulary = [&](int32_t id) {
    return id >= 0 && static_cast<size_t>(id) < scores_.size();
  };
  for (auto [id, bias] : options_.logit_bias)
    if (in_vocabulary(id)) scores_[static_cast<size_t>(id)] += bias;
  for (int32_t id : never_)
    if (in_vocabulary(id)) scores_[static_cast<size_t>(id)] = kRemoved;
  for (size_t id = 0; !allowed.empty() && id < scores_.size(); ++id)
    if (!is_allowed(allowed, id)) scores_[id] = kRemoved;
  for (auto [id, count] : history_counts_) {
    if (!in_vocabulary(id)) continue;
    float& score = scores_[static_cast<size_t>(id)];
    score =
        score > 0.0F ? score / options_.repetition_penalty : score * options_.repetition_penalty;
    score -= options_.presence_penalty;
    score -= static_cast<float>(count) * options_.frequency_penalty;
  }
}

std::optional<int32_t> Sampler::best_id() const {
  std::optional<size_t> best;
  for (size_t id = 0; id < scores_.size(); ++id) {
    if (best ? scores_[id] > scores_[*best] && std::isfinite(scores_[id])
             : std::isfinite(scores_[id]))
      best = id;
  }
  if (!best) return std::nullopt;
  return static_cast<int32_t>(*best);
}

int32_t Sampler::fallback_id(std::span<const uint64_t> allowed) const {
  for (size_t id = 0; id < scores_.size(); ++id) {
    auto token = static_cast<int32_t>(id);
    if (is_allowed(allowed, id) && !std::binary_search(never_.begin(), never_.end(), token))
      return token;
  }
  return 0;
}

bool Sampler::better(const Candidate& a, const Candidate& b) {
  return a.score > b.score || (a.score == b.score && a.id < b.id);
}

// Candidates: the top_k best scores, or all of them. A heap with the worst of the chosen on top: in
// a large vocabulary nearly every id is turned away by one comparison.
void Sampler::select_top_k() {
  candidates_.clear();
  size_t wanted = options_.top_k == 0 ? scores_.size() : options_.top_k;
  bool heap = false;
  for (size_t id = 0; id < scores_.size(); ++id) {
    float score = scores_[id];
    if (candidates_.size() < wanted) {
      if (std::isfinite(score)) candidates_.push_back({score, static_cast<int32_t>(id), 0});
      continue;
    }
    if (!heap) std::make_heap(candidates_.begin(), candidates_.end(), better);
    heap = true;
    // Ids ascend, so an equal score loses here.
    if (!(score > candidates_.front().score) || !std::isfinite(score)) continue;
    std::pop_heap(candidates_.begin(), candidates_.end(), better);
    candidates_.back() = {score, static_cast<int32_t>(id), 0};
    std::push_heap(candidates_.begin(), candidates_.end(), better);
  }
}

// Candidates that weigh nothing are dropped: they add to no sum, and are never drawn.
void Sampler::weigh(float best_score) {
  size_t n = 0;
  for (const Candidate& candidate : candidates_) {
    const float x = (candidate.score - best_score) / options_.temperature;
    if (x < kWeightlessBelow) continue;
    const float e = kernels::canonical_exp(x);
    const auto weight = static_cast<uint64_t>(static_cast<double>(e) * kWeightOne);
    candidates_[n++] = {candidate.score, candidate.id, weight};
  }
  candidates_.resize(n);
}

// Among the first `count` candidates, which are all better than the others; the sum of all of them
// is enough. Afterwards the prefix stands in front, in no order. Sorts a few hundred instead of a
// quarter of a million: sums are exact, so whole halves can be taken or left.
template <typename Enough>
Sampler::Prefix Sampler::shortest_prefix(size_t count, Enough enough) {
  const auto at = [&](size_t i) { return candidates_.begin() + static_cast<ptrdiff_t>(i); };
  size_t begin = 0;
  size_t end = count;
  uint64_t before = 0;  // weight of the candidates up to `begin`
  // Most of the weight is nearly always with the first few.
  for (size_t left = kSortedMax; end - begin > kSortedMax; left = (end - begin) / 2) {
    const size_t middle = begin + left;
    std::nth_element(at(begin), at(middle), at(end), better);
    uint64_t weight = before;
    for (size_t i = begin; i < middle; ++i) weight += candidates_[i].weight;
    if (enough(weight)) {
      end = middle;
    } else {
      begin = middle;
      before = weight;
    }
  }
  std::sort(at(begin), at(end), better);
  for (size_t i = begin;; ++i) {
    KVASIR_CHECK(i < end);
    before += candidates_[i].weight;
    if (enough(before)) return {i + 1, before, candidates_[i].id};
  }
}

// Of the candidates in front of the first one in order that weighs less.
uint64_t Sampler::weight_above(double weight_min) const {
  const Candidate* stop = nullptr;
  for (const Candidate& candidate : candidates_)
    if (static_cast<double>(candidate.weight) < weight_min && (!stop || better(candidate, *stop)))
      stop = &candidate;
  uint64_t sum = 0;
  for (const Candidate& candidate : candidates_)
    if (!stop || better(candidate, *stop)) sum += candidate.weight;
  return sum;
}

int32_t Sampler::draw() {
  uint64_t total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  size_t count = candidates_.size();
  uint64_t kept = total;
  if (options_.top_p < 1.0F) {
    const double wanted = static_cast<double>(options_.top_p) * static_cast<double>(total);
    const Prefix prefix = shortest_prefix(
        count, [&](uint64_t weight) { return static_cast<double>(weight) >= wanted; });
    count = prefix.count;
    kept = prefix.weight;
  }
  if (options_.min_p > 0.0F) {
    // The first in order weighs exp(0).
    kept = std::min(kept, weight_above(static_cast<double>(options_.min_p) * kWeightOne));
  }
  const uint64_t target = multiply_high(random_.next(), kept);  // < kept
  return shortest_prefix(count, [&](uint64_t weight) { return weight > target; }).last_id;
}

}  // namespace kvasir::engine
