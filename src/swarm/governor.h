// The governor of --dispatch auto: ship experts only while that is faster. A model of costs says
// what might pay (call_plan.h); this class holds it against what really happened, because a model
// does not see everything: workers on the same machine slow down what stays here.
//
// Calls are counted in epochs. While alone, one epoch in a while tries shipping, and if that was no
// faster the next trial comes after twice as long, so that trying costs less and less. While
// shipping, one epoch in a while is computed alone, to know whether it still pays. Pure; one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvasir::swarm {

class Governor {
 public:
  enum class Mode : uint8_t { kAlone, kShip };

  static constexpr uint64_t kEpochCalls = 32;
  static constexpr uint64_t kFirstTrialAfter = 1;  // epochs
  static constexpr uint64_t kTrialAfterMax = 256;  // 8,192 calls: 170 tokens of 48 layers
  static constexpr uint64_t kCheckAfter = 32;      // epochs of shipping
  // Faster by less is no reason to change.
  static constexpr double kGain = 0.95;

  // What to do with the next call, if the model of costs agrees.
  Mode mode() const { return mode_; }
  // A call is over. alone_us: what it would have taken here, by the model; took_us: what it took.
  // shipped: whether anything was sent.
  void on_call(double alone_us, double took_us, bool shipped);

  // For people. Times as a share of what the model expects of computing alone; 0: not measured.
  struct View {
    Mode mode = Mode::kAlone;
    bool trial = false;
    double alone_score = 0, ship_score = 0;
    uint64_t calls = 0, trials = 0, epochs_until_trial = 0;
  };
  View view() const;

 private:
  void end_epoch();

  Mode mode_ = Mode::kAlone;  // of this epoch
  Mode home_ = Mode::kAlone;  // between trials
  double alone_score_ = 0, ship_score_ = 0;
  double epoch_expected_ = 0, epoch_took_ = 0;
  uint64_t epoch_calls_ = 0, epoch_shipped_ = 0;
  uint64_t epochs_left_ = kFirstTrialAfter;  // until a trial, or a check
  uint64_t trial_after_ = kFirstTrialAfter;
  uint64_t calls_ = 0, trials_ = 0;
};

}  // namespace kvasir::swarm
