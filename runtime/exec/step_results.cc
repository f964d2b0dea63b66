#include "runtime/exec/step_results.h"

#include <cmath>
#include <cstring>

namespace piper::exec {

namespace {

Result<std::unique_ptr<hal::Download>> download(const LoadedRank& rank, const plan::BufferRange& range, int64_t bytes) {
  if (range.buffer < 0) return std::unique_ptr<hal::Download>();
  return rank.device().make_download(rank.at(range), bytes);
}

template <class Value>
Result<Value> wait_for(hal::Download& download) {
  PIPER_ASSIGN(const std::byte* bytes, download.wait());
  Value value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

Result<StepResults> StepResults::bind(const LoadedRank& rank) {
  StepResults results;
  results.num_squares_ = plan::num_grad_squares(rank.bundle->manifest);
  PIPER_ASSIGN(results.loss_, download(rank, rank.plan->loss, sizeof(float)));
  PIPER_ASSIGN(results.grad_norm_, download(rank, rank.plan->grad_norm, sizeof(float)));
  PIPER_ASSIGN(results.grad_squares_,
               download(rank, rank.plan->grad_squares, static_cast<int64_t>(results.num_squares_ * sizeof(float))));
  PIPER_ASSIGN(results.dropped_, download(rank, rank.plan->dropped, sizeof(int64_t)));
  PIPER_ASSIGN(results.loss_scale_, download(rank, rank.plan->loss_scale, sizeof(float)));
  PIPER_ASSIGN(results.overflow_, download(rank, rank.plan->overflow, sizeof(float)));
  return results;
}

Result<StepResults::Values> StepResults::read() {
  for (hal::Download* download :
       {loss_.get(), grad_norm_.get(), grad_squares_.get(), dropped_.get(), loss_scale_.get(), overflow_.get()})
    if (download != nullptr) PIPER_RETURN_IF_ERROR(download->begin());
  Values values;
  if (loss_ != nullptr) {
    PIPER_ASSIGN(values.loss, wait_for<float>(*loss_));
  }
  if (grad_norm_ != nullptr) {
    PIPER_ASSIGN(values.grad_norm, wait_for<float>(*grad_norm_));
  }
  if (grad_squares_ != nullptr) {
    PIPER_ASSIGN(const std::byte* bytes, grad_squares_->wait());
    values.grad_squares.resize(num_squares_);
    std::memcpy(values.grad_squares.data(), bytes, num_squares_ * sizeof(float));
  }
  if (dropped_ != nullptr) {
    PIPER_ASSIGN(values.dropped, wait_for<int64_t>(*dropped_));
  }
  if (loss_scale_ != nullptr) {
    PIPER_ASSIGN(values.loss_scale, wait_for<float>(*loss_scale_));
  }
  if (overflow_ != nullptr) {
    PIPER_ASSIGN(const float overflow, wait_for<float>(*overflow_));
    values.overflow = overflow != 0;
  }
  return values;
}

Status check_finite(const StepResults::Values& values, int64_t step) {
  if (values.overflow.value_or(false)) return {};
  const bool loss = std::isfinite(values.loss);
  const float found = loss ? values.grad_norm.value_or(0) : values.loss;
  if (std::isfinite(found)) return {};
  return Status::failure("R0801", "step " + std::to_string(step) + ": the " +
                                      (loss ? "norm of the gradients" : "loss") + " is " +
                                      (std::isnan(found) ? "NaN"
                                       : found > 0       ? "infinite"
                                                         : "minus infinity"));
}

}  // namespace piper::exec
