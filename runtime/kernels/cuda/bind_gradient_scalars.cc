// The binders of square_sum, clip_scale, unscale and overflows.
#include "runtime/kernels/cuda/bound_call.h"
#include "runtime/kernels/cuda/gradient_scalars.h"

namespace piper::kernels::cuda {
namespace {

GradientElements gradient_elements(const View& x) {
  want_gradient(x);
  return {x.data, x.dtype, x.layout(), x.elements()};
}
float* f32_scalar(const View& view, const char* what) { return scalar_of<float>(view, DType::kF32, what); }

}  // namespace

MadeKernel bind_square_sum(const BoundCall& call) {
  return make_kernel([x = gradient_elements(call.in(0)), out = f32_scalar(call.out(0), "the output"),
                      parts = call.reserve<double>(kMostParts), accumulate = call.accumulate()](cudaStream_t stream) {
    launch_square_sum(x, parts, out, accumulate, stream);
  });
}

MadeKernel bind_overflows(const BoundCall& call) {
  return make_kernel([x = gradient_elements(call.in(0)), out = f32_scalar(call.out(0), "the output"),
                      parts = call.reserve<float>(kMostParts), accumulate = call.accumulate()](cudaStream_t stream) {
    launch_overflows(x, parts, out, accumulate, stream);
  });
}

MadeKernel bind_clip_scale(const BoundCall& call) {
  want_dtype(call.in(0), DType::kF32, "the input");
  ClipScale clip;
  clip.sums = reinterpret_cast<const float*>(call.in(0).data);
  clip.layout = call.in(0).layout();
  clip.count = call.in(0).elements();
  clip.limit = static_cast<float>(call.clip_grad_norm());
  if (call.in(1).defined) clip.loss_scale = f32_scalar(call.in(1), "input 1");
  if (call.out(0).defined) clip.norm = f32_scalar(call.out(0), "output 0");
  if (call.out(1).defined) clip.factor = f32_scalar(call.out(1), "output 1");
  return make_kernel([clip](cudaStream_t stream) { launch_clip_scale(clip, stream); });
}

MadeKernel bind_unscale(const BoundCall& call) {
  return make_kernel([factor = f32_scalar(call.out(0), "the output"), scale = f32_scalar(call.in(0), "the input")](
                         cudaStream_t stream) { launch_unscale(factor, scale, stream); });
}

}  // namespace piper::kernels::cuda
