// How long a worker takes: learnt from its answers. A ticket is expected to take a fixed time for
// the way, and one time per pair for computing those before it and its own; what really happens is
// kept as a ratio to that, so that tickets of all sizes teach the same distribution.
//
// Tickets that were given up count as at least the time until then, or the estimate would shrink
// on its own censoring. Pure; one thread.
#pragma once

#include <array>
#include <cstddef>

#include "swarm/types.h"

namespace kvasir::swarm {

class LatencyModel {
 public:
  // Answers after which the model is believed.
  static constexpr size_t kAnswersMin = 8;

  bool is_known() const { return answers_ >= kAnswersMin; }
  // pairs_ahead: of tickets that the worker has not answered yet.
  double expected_us(size_t pairs, size_t pairs_ahead) const;
  // The time within which a share `q` (0..1) of such tickets is answered.
  TimeUs quantile_us(double q, size_t pairs, size_t pairs_ahead) const;

  // compute_us is the worker's own word and is believed no further than `elapsed_us`.
  void on_answer(TimeUs elapsed_us, uint32_t compute_us, size_t pairs, size_t pairs_ahead);
  void on_given_up(TimeUs elapsed_us, size_t pairs, size_t pairs_ahead);

  double way_us() const { return way_us_; }
  double pair_us() const { return pair_us_; }
  // Of whole tickets lately, for people: q = 0.5, 0.99.
  TimeUs recent_us(double q) const;

 private:
  // Enough for a p90 that stands on a dozen samples; so few that a worker which becomes slow is
  // believed to be slow within a few tokens.
  static constexpr size_t kWindow = 128;

  void remember(double ratio, TimeUs elapsed_us);
  double ratio(double q) const;

  double way_us_ = 20'000;  // a guess for a home connection, until known
  double pair_us_ = 2'000;
  size_t answers_ = 0;
  size_t samples_ = 0;  // ever remembered
  std::array<double, kWindow> ratios_{};
  std::array<float, kWindow> elapsed_{};
  std::array<double, kWindow> sorted_{};  // the ratios, kept in order: asked for with every ticket
};

}  // namespace kvasir::swarm
