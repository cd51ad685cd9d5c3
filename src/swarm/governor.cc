#include "swarm/governor.h"

#include <algorithm>

namespace kvasir::swarm {
namespace {

void blend(double& score, double sample) {
  score = score == 0 ? sample : score + 0.5 * (sample - score);
}

}  // namespace

void Governor::on_call(double alone_us, double took_us, bool shipped) {
  ++calls_;
  if (alone_us <= 0) return;
  epoch_expected_ += alone_us;
  epoch_took_ += took_us;
  epoch_shipped_ += shipped ? 1 : 0;
  if (++epoch_calls_ >= kEpochCalls) end_epoch();
}

void Governor::end_epoch() {
  const double score = epoch_took_ / epoch_expected_;
  const bool shipped = mode_ == Mode::kShip && epoch_shipped_ > 0;
  if (shipped) {
    blend(ship_score_, score);
  } else {
    blend(alone_score_, score);
  }
  epoch_expected_ = epoch_took_ = 0;
  epoch_calls_ = epoch_shipped_ = 0;

  const bool pays = shipped && ship_score_ < kGain * alone_score_;
  if (home_ == Mode::kAlone) {
    if (mode_ == Mode::kShip) {  // a trial ends
      mode_ = Mode::kAlone;
      if (pays) {
        home_ = mode_ = Mode::kShip;
        epochs_left_ = kCheckAfter;
        trial_after_ = kFirstTrialAfter;
      } else {
        // A trial in which nothing could be sent cost nothing and says nothing.
        if (shipped) trial_after_ = std::min(2 * trial_after_, kTrialAfterMax);
        epochs_left_ = trial_after_;
      }
    } else if (--epochs_left_ == 0) {
      mode_ = Mode::kShip;
      ship_score_ = 0;  // conditions may have changed since
      ++trials_;
    }
    return;
  }
  if (mode_ == Mode::kAlone) {  // a check ends
    if (ship_score_ < kGain * alone_score_) {
      mode_ = Mode::kShip;
      epochs_left_ = kCheckAfter;
    } else {
      home_ = Mode::kAlone;
      epochs_left_ = trial_after_ = kFirstTrialAfter;
    }
  } else if (!pays) {
    home_ = mode_ = Mode::kAlone;
    epochs_left_ = trial_after_ = kFirstTrialAfter;
  } else if (--epochs_left_ == 0) {
    mode_ = Mode::kAlone;
    alone_score_ = 0;
  }
}

Governor::View Governor::view() const {
  return {home_, mode_ != home_, alone_score_, ship_score_, calls_, trials_, epochs_left_};
}

}  // namespace kvasir::swarm
