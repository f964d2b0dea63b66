// Counts spikes of the loss by a published rule: a loss that lies seven standard deviations or more above the mean of
// the last 1000 losses (the spike score of "2 OLMo 2 Furious", Team OLMo 2024, arXiv:2501.00656, section 3.1, which
// counts values below as well). The first losses of a run are not judged. Losses that are no numbers are none of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace piper::trace {

class LossSpikes {
 public:
  static constexpr size_t kWindow = 1000;  // losses
  static constexpr size_t kFirst = 100;    // losses that come before the first one that is judged
  static constexpr double kDeviations = 7;

  // Judges a loss by those before it. Constant time.
  void add(double loss);
  int64_t count() const { return count_; }

 private:
  std::vector<double> window_;  // the last losses, from oldest_ on
  size_t oldest_ = 0;
  double shift_ = 0, sum_ = 0, squares_ = 0;  // of loss - shift_, the first loss: keeps squares from cancelling
  int64_t count_ = 0;
};

}  // namespace piper::trace
