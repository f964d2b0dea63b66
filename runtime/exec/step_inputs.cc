#include "runtime/exec/step_inputs.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/exec/lr_schedule.h"

namespace piper::exec {

namespace {

int64_t bytes_of(const plan::InputDecl& input, int64_t samples) {
  int64_t bytes = dtype_bytes(input.dtype) * (input.batched ? samples : 1);
  for (const int64_t extent : input.sample_shape) bytes *= extent;
  return bytes;
}

template <class Value>
Status write_value(hal::Upload* upload, const Value& value) {
  if (upload == nullptr) return {};
  std::memcpy(upload->begin(), &value, sizeof value);
  return upload->commit();
}

}  // namespace

Result<StepInputs> StepInputs::bind(const LoadedRank& rank, const data::DataSource& data, uint64_t seed) {
  const plan::RankPlan& plan = *rank.plan;
  const plan::Manifest& manifest = rank.bundle->manifest;
  StepInputs inputs(manifest, data, seed);
  for (const plan::InputSlice& slice : plan.inputs) {
    const auto found = std::find_if(manifest.inputs.begin(), manifest.inputs.end(),
                                    [&](const plan::InputDecl& d) { return d.name == slice.input; });
    if (found == manifest.inputs.end())
      return Status::failure("R0404", "the manifest has no input '" + slice.input + "'");
    PIPER_ASSIGN(auto upload, rank.device().make_upload(rank.at(slice.where), bytes_of(*found, slice.count)));
    inputs.samples_.push_back(
        {static_cast<size_t>(found - manifest.inputs.begin()), slice.first, slice.count, std::move(upload)});
  }
  if (plan.seed_step.buffer >= 0) {
    PIPER_ASSIGN(inputs.seed_step_, rank.device().make_upload(rank.at(plan.seed_step), 2 * sizeof(int64_t)));
  }
  if (plan.learning_rate.buffer >= 0) {
    PIPER_ASSIGN(inputs.learning_rate_, rank.device().make_upload(rank.at(plan.learning_rate), sizeof(double)));
  }
  return inputs;
}

double StepInputs::learning_rate(int64_t step) const {
  return manifest_->optimizer.lr * lr_factor(manifest_->lr_schedule, step);
}

Status StepInputs::write(int64_t step) {
  for (const Samples& samples : samples_) {
    data_->fill(samples.input, step + data_shift_, samples.first, samples.count, samples.upload->begin());
    PIPER_RETURN_IF_ERROR(samples.upload->commit());
  }
  PIPER_RETURN_IF_ERROR(write_value(seed_step_.get(), std::array<int64_t, 2>{static_cast<int64_t>(seed_), step}));
  return write_value(learning_rate_.get(), learning_rate(step));
}

}  // namespace piper::exec
