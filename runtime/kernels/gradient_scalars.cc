// Scalars that are made of gradients or say how updates take them: norms, clipping, overflow, the loss scale.
#include <cmath>

#include "runtime/kernels/binding.h"
#include "runtime/kernels/element_type.h"

namespace piper::kernels {
namespace {

// As torch.amp.GradScaler: backoff_factor, growth_factor, growth_interval.
constexpr float kBackoff = 0.5f, kGrowth = 2.0f;
constexpr int64_t kGrowthInterval = 2000;

float* scalar_out(const Call& call, size_t i) {
  want_dtype(call.out(i), at::kFloat, "an output");
  if (call.out(i).numel() != 1) refuse("output ", i, " has more than one element");
  return call.out(i).mutable_data_ptr<float>();
}
const float* scalar_in(const Call& call, size_t i) {
  want_dtype(call.in(i), at::kFloat, "an input");
  if (call.in(i).numel() != 1) refuse("input ", i, " has more than one element");
  return call.in(i).const_data_ptr<float>();
}

}  // namespace

// Eight partial sums in double, added in a fixed order.
std::unique_ptr<PreparedKernel> bind_square_sum(const Call& call) {
  want_gradients(call.in(0));
  float* out = scalar_out(call, 0);
  return make_kernel(call, [out, x = call.in(0), accumulate = call.accumulate()] {
    double lanes[8] = {};
    for_each_f32_block(dense(x), [&](int64_t, const float* data, int64_t count) {
      int64_t i = 0;
      for (; i + 8 <= count; i += 8)
        for (int lane = 0; lane < 8; ++lane) lanes[lane] += static_cast<double>(data[i + lane]) * data[i + lane];
      for (int lane = 0; i < count; ++i, ++lane) lanes[lane] += static_cast<double>(data[i]) * data[i];
    });
    double sum = 0;
    for (double lane : lanes) sum += lane;
    *out = static_cast<float>(accumulate ? *out + sum : sum);
  });
}

// torch.nn.utils.clip_grad_norm_: scale = min(1, limit / (norm + 1e-6)); of gradients that are still scaled, both
// without that scale.
std::unique_ptr<PreparedKernel> bind_clip_scale(const Call& call) {
  want_dtype(call.in(0), at::kFloat, "the input");
  float* norm = call.out(0).defined() ? scalar_out(call, 0) : nullptr;
  float* scale = call.out(1).defined() ? scalar_out(call, 1) : nullptr;
  const float* loss_scale = call.num_inputs() > 1 ? scalar_in(call, 1) : nullptr;
  return make_kernel(call,
                     [norm, scale, loss_scale, x = call.in(0), limit = static_cast<float>(call.clip_grad_norm())] {
                       const at::Tensor sums = dense(x);
                       double sum = 0;
                       for (int64_t i = 0; i < sums.numel(); ++i) sum += sums.const_data_ptr<float>()[i];
                       const double root = std::sqrt(sum);
                       const float total = static_cast<float>(loss_scale != nullptr ? root / *loss_scale : root);
                       if (norm != nullptr) *norm = total;
                       // NaN stays NaN, as torch.clamp keeps it.
                       const float wanted = limit / (total + 1e-6f);
                       const float clipped = wanted > 1.0f ? 1.0f : wanted;
                       if (scale != nullptr) *scale = loss_scale != nullptr ? clipped / *loss_scale : clipped;
                     });
}

std::unique_ptr<PreparedKernel> bind_unscale(const Call& call) {
  return make_kernel(call, [out = scalar_out(call, 0), scale = scalar_in(call, 0)] { *out = 1.0f / *scale; });
}

std::unique_ptr<PreparedKernel> bind_overflows(const Call& call) {
  want_gradients(call.in(0));
  return make_kernel(call, [out = scalar_out(call, 0), x = call.in(0), accumulate = call.accumulate()] {
    // An infinity or a NaN, and nothing else, makes x - x something other than 0.
    float differences = 0;
    for_each_f32_block(dense(x), [&](int64_t, const float* data, int64_t count) {
      for (int64_t i = 0; i < count; ++i) differences += data[i] - data[i];
    });
    const float found = differences == 0 ? 0.0f : 1.0f;
    *out = accumulate ? *out + found : found;
  });
}

std::unique_ptr<PreparedKernel> bind_advance(const Call& call) {
  want_dtype(call.out(0), at::kLong, "the output");
  if (call.out(0).numel() != 1) refuse("the output is no scalar");
  const float* overflow = call.num_inputs() > 0 ? scalar_in(call, 0) : nullptr;
  return make_kernel(call, [count = call.out(0).mutable_data_ptr<int64_t>(), overflow] {
    if (overflow == nullptr || *overflow == 0) ++*count;
  });
}

std::unique_ptr<PreparedKernel> bind_advance_loss_scale(const Call& call) {
  want_dtype(call.out(1), at::kLong, "output 1");
  if (call.out(1).numel() != 1) refuse("output 1 is no scalar");
  const float* overflow = scalar_in(call, 0);
  float* scale = scalar_out(call, 0);
  int64_t* good = call.out(1).mutable_data_ptr<int64_t>();
  return make_kernel(call, [overflow, scale, good, dynamic = call.attr_bool("dynamic")] {
    if (*overflow != 0) {
      *good = 0;
      if (dynamic) *scale *= kBackoff;
      return;
    }
    if (++*good < kGrowthInterval || !dynamic) return;
    *good = 0;
    if (std::isfinite(*scale * kGrowth)) *scale *= kGrowth;
  });
}

}  // namespace piper::kernels
