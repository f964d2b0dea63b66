#include "runtime/exec/step_inputs.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/exec/lr_schedule.h"

namespace piper::exec {

namespace {

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
    const int64_t bytes = plan::sample_bytes(*found, slice.count);
    PIPER_ASSIGN(auto upload, rank.device().make_upload(rank.at(slice.where), bytes));
    const auto input = static_cast<size_t>(found - manifest.inputs.begin());
    inputs.samples_.push_back({{input, slice.first, slice.count, bytes}, std::move(upload)});
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

void StepInputs::read_ahead(int64_t first, int64_t last, const trace::RingTrack& track) {
  std::vector<data::ReadAhead::Part> parts;
  for (const Samples& samples : samples_) parts.push_back(samples.part);
  ahead_ = std::make_unique<data::ReadAhead>(*data_, std::move(parts), first + data_shift_, last + data_shift_, track);
}

Status StepInputs::write(int64_t step) {
  const std::byte* read = ahead_->take(step + data_shift_);
  for (const Samples& samples : samples_) {
    const auto bytes = static_cast<size_t>(samples.part.bytes);
    if (bytes > 0) std::memcpy(samples.upload->begin(), read, bytes);
    read += bytes;
    PIPER_RETURN_IF_ERROR(samples.upload->commit());
  }
  ahead_->release();
  PIPER_RETURN_IF_ERROR(write_value(seed_step_.get(), std::array<int64_t, 2>{static_cast<int64_t>(seed_), step}));
  return write_value(learning_rate_.get(), learning_rate(step));
}

}  // namespace piper::exec
