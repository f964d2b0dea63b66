#include "runtime/kernels/cuda/group_commands.h"

#include <string>
#include <utility>

#include "runtime/kernels/cuda/bound_call.h"
#include "runtime/kernels/cuda/copies.h"
#include "runtime/kernels/cuda/piece_sum.h"
#include "schemas/plan/convert_elements.h"

namespace piper::kernels::cuda {
namespace {

template <class F>
class LaunchCommand : public hal::Command {
 public:
  explicit LaunchCommand(F launch) : launch_(std::move(launch)) {}
  Status issue(hal::Queue& queue, const hal::Submission&) override {
    try {
      launch_(hal::stream_of(queue));
    } catch (const std::runtime_error& failure) {
      return Status::failure("R0407", failure.what());
    }
    return {};
  }

 private:
  F launch_;
};
template <class F>
hal::MadeCommand command(F launch) {
  return std::unique_ptr<hal::Command>(std::make_unique<LaunchCommand<F>>(std::move(launch)));
}

}  // namespace

hal::MadeCommand make_piece_sum(const hal::PieceSum& sum) {
  const bool as_it_is = sum.sum == sum.message && !is_half(sum.message) && sum.message != DType::kBool;
  if (!as_it_is && !(is_half(sum.message) && sum.sum == DType::kF32))
    return Status::failure(
        "R0404", "GPUs cannot sum " + std::string(dtype_name(sum.message)) + " as " + std::string(dtype_name(sum.sum)));
  return command([sum](cudaStream_t stream) { launch_piece_sum(sum, stream); });
}

hal::MadeCommand make_conversion(hal::Elements to, hal::Elements from, int64_t count) {
  if (!can_convert_elements(from.type, to.type))
    return Status::failure(
        "R0404", "GPUs cannot make " + std::string(dtype_name(to.type)) + " of " + std::string(dtype_name(from.type)));
  const auto dense = [count](const hal::Elements& elements) {
    StridedElements strided{elements.data.in_device(), elements.type, {}};
    strided.layout.extent[0] = count;
    return strided;
  };
  return command([to = dense(to), from = dense(from), count](cudaStream_t stream) {
    launch_copy(to, from, count, CopyMode::kCopy, stream);
  });
}

}  // namespace piper::kernels::cuda
