// Layer normalisation through the kernels underlying the operator, which write into given outputs. Compiled
// with the definitions that DispatchStub.h wants. bf16 and f16 are computed in f32; f64 keeps its statistics in
// scratch and computes them again in the backward, because the saved ones are f32.
#include <ATen/native/layer_norm.h>

#include "runtime/kernels/binding.h"
#include "runtime/kernels/norm_rows.h"

namespace piper::kernels {
namespace {

void want_statistics(const at::Tensor& t, const NormRows& r) {
  if (!t.defined()) return;
  want_dtype(t, at::kFloat, "a statistic");
  if (t.numel() != r.rows || !t.is_contiguous()) refuse("a statistic of ", t.sizes(), " for ", r.rows, " rows");
}
void want_weight(const at::Tensor& t, const at::Tensor& x, const NormRows& r) {
  if (!t.defined()) return;
  want_same_dtype(t, x);
  if (t.numel() != r.columns) refuse("a weight of ", t.sizes(), " for ", r.columns, " columns");
}

// Statistics in the element type of x: the saved f32 ones, or computed anew.
std::pair<at::Tensor, at::Tensor> statistics(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                                             const NormRows& r) {
  if (x.scalar_type() == at::kFloat) return {mean, rstd};
  at::Tensor y = scratch_like(x), new_mean = scratch({r.rows}, x.scalar_type(), x), new_rstd = scratch_like(new_mean);
  at::native::LayerNormKernel(at::kCPU, x, at::Tensor(), at::Tensor(), r.rows, r.columns, r.eps, &y, &new_mean,
                              &new_rstd);
  return {new_mean, new_rstd};
}

}  // namespace

std::unique_ptr<PreparedKernel> bind_layer_norm(const Call& call) {
  const at::Tensor x = call.in(0);
  const NormRows r = norm_rows(call, x);
  want_shape(call.out(0), x.sizes(), "the output");
  want_same_dtype(call.out(0), x);
  want_weight(call.in(1), x, r);
  want_weight(call.in(2), x, r);
  want_statistics(call.out(1), r);
  want_statistics(call.out(2), r);
  return make_kernel(
      call, [y = call.out(0), mean = call.out(1), rstd = call.out(2), x, w = call.in(1), b = call.in(2), r]() mutable {
        const at::Tensor input = dense_computed(x), weight = dense_computed(w), bias = dense_computed(b);
        const bool own_type = input.scalar_type() == at::kFloat;
        at::Tensor m = own_type && mean.defined() ? mean : scratch({r.rows}, input.scalar_type(), input);
        at::Tensor s = own_type && rstd.defined() ? rstd : scratch({r.rows}, input.scalar_type(), input);
        produce_computed(y, false, [&](at::Tensor& dense_y) {
          at::native::LayerNormKernel(at::kCPU, input, weight, bias, r.rows, r.columns, r.eps, &dense_y, &m, &s);
        });
        if (!own_type && mean.defined()) mean.copy_(m.view(mean.sizes()));
        if (!own_type && rstd.defined()) rstd.copy_(s.view(rstd.sizes()));
      });
}

std::unique_ptr<PreparedKernel> bind_layer_norm_backward_input(const Call& call) {
  const at::Tensor g = call.in(0), x = call.in(1), mean = call.in(2), rstd = call.in(3), w = call.in(4);
  const NormRows r = norm_rows(call, x);
  want_shape(g, x.sizes(), "the gradient");
  want_shape(call.out(0), x.sizes(), "the output");
  want_same_dtype(call.out(0), x);
  want_same_dtype(g, x);
  want_weight(w, x, r);
  want_statistics(mean, r);
  want_statistics(rstd, r);
  return make_kernel(call, [dx = call.out(0), g, x, mean, rstd, w, r]() mutable {
    const at::Tensor gradient = dense_computed(g), input = dense_computed(x), weight = dense_computed(w);
    const auto [m, s] = statistics(input, mean, rstd, r);
    at::Tensor none_w, none_b;
    produce_computed(dx, false, [&, &m = m, &s = s](at::Tensor& y) {
      at::native::LayerNormBackwardKernel(at::kCPU, gradient, input, m, s, weight, r.rows, r.columns, &y, &none_w,
                                          &none_b);
    });
  });
}

std::unique_ptr<PreparedKernel> bind_layer_norm_backward_weight(const Call& call) {
  const at::Tensor g = call.in(0), x = call.in(1), mean = call.in(2), rstd = call.in(3);
  const NormRows r = norm_rows(call, x);
  want_shape(g, x.sizes(), "the gradient");
  want_same_dtype(g, x);
  want_statistics(mean, r);
  want_statistics(rstd, r);
  for (const at::Tensor& out : {call.out(0), call.out(1)}) want_weight(out, x, r);
  return make_kernel(
      call, [dw = call.out(0), db = call.out(1), g, x, mean, rstd, r, accumulate = call.accumulate()]() mutable {
        const at::Tensor gradient = dense_computed(g), input = dense_computed(x);
        const auto [m, s] = statistics(input, mean, rstd, r);
        const auto target = [&](const at::Tensor& out) {
          if (!out.defined()) return at::Tensor();
          const bool direct = !accumulate && out.is_contiguous() && computed_type(out) == out.scalar_type();
          return direct ? out : scratch(out.sizes(), computed_type(out), out);
        };
        at::Tensor none_x, new_w = target(dw), new_b = target(db);
        at::native::LayerNormBackwardKernel(at::kCPU, gradient, input, m, s, at::Tensor(), r.rows, r.columns, &none_x,
                                            &new_w, &new_b);
        if (dw.defined() && !new_w.is_same(dw)) store(dw, new_w, accumulate);
        if (db.defined() && !new_b.is_same(db)) store(db, new_b, accumulate);
      });
}

}  // namespace piper::kernels
