// All that the host writes for a step: samples, seed and step for random masks, the learning rate. Nothing else that
// changes from step to step comes from outside of the device.
#pragma once

#include <memory>
#include <vector>

#include "runtime/data/read_ahead.h"
#include "runtime/exec/load_rank.h"

namespace piper::exec {

class StepInputs {
 public:
  // `rank` and `data` outlive it. R0404: the plan has an input that the manifest does not have.
  static Result<StepInputs> bind(const LoadedRank& rank, const data::DataSource& data, uint64_t seed);
  // The data of step s are from now on those of step s + `steps`.
  void shift_data(int64_t steps) { data_shift_ = steps; }
  // Begins to read the samples of steps [first, last], which are then written once each, in their order.
  void read_ahead(int64_t first, int64_t last, const trace::RingTrack& track = {});
  // For step `step`, from 1; before what is submitted next.
  Status write(int64_t step);
  // How long the last write() waited for its samples.
  double data_wait_s() const { return ahead_->waited_s(); }
  // The rate of a step.
  double learning_rate(int64_t step) const;

 private:
  struct Samples {
    data::ReadAhead::Part part;
    std::unique_ptr<hal::Upload> upload;
  };
  StepInputs(const plan::Manifest& manifest, const data::DataSource& data, uint64_t seed)
      : manifest_(&manifest), data_(&data), seed_(seed) {}

  const plan::Manifest* manifest_;
  const data::DataSource* data_;
  uint64_t seed_;
  int64_t data_shift_ = 0;
  std::vector<Samples> samples_;
  std::unique_ptr<data::ReadAhead> ahead_;                  // from read_ahead() on
  std::unique_ptr<hal::Upload> seed_step_, learning_rate_;  // nullptr: not used on this rank
};

}  // namespace piper::exec
