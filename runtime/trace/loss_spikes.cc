#include "runtime/trace/loss_spikes.h"

#include <algorithm>
#include <cmath>

namespace piper::trace {

void LossSpikes::add(double loss) {
  if (!std::isfinite(loss)) return;
  if (window_.empty()) shift_ = loss;
  const auto losses = static_cast<double>(window_.size());
  if (window_.size() >= kFirst) {
    const double mean = sum_ / losses, variance = std::max(squares_ / losses - mean * mean, 0.0);
    if (variance > 0 && loss - shift_ - mean >= kDeviations * std::sqrt(variance)) ++count_;
  }
  const double shifted = loss - shift_;
  if (window_.size() < kWindow) {
    window_.push_back(shifted);
  } else {
    sum_ -= window_[oldest_];
    squares_ -= window_[oldest_] * window_[oldest_];
    window_[oldest_] = shifted;
    oldest_ = (oldest_ + 1) % kWindow;
  }
  sum_ += shifted;
  squares_ += shifted * shifted;
}

}  // namespace piper::trace
