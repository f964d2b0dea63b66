#include "tests/unit/kernels_testing.h"

#include <thread>

#include "schemas/plan/kernels.h"

namespace piper::kernels::testing {
namespace {

DType dtype_of(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case at::kFloat: return DType::kF32;
    case at::kDouble: return DType::kF64;
    case at::kLong: return DType::kI64;
    case at::kInt: return DType::kI32;
    case at::kBool: return DType::kBool;
    default: break;
  }
  FAIL("an element type the tests do not use");
  return DType::kF32;
}

plan::Operand operand_of(const at::Tensor& t) {
  plan::Operand operand;
  if (!t.defined()) return operand;
  operand.slot = 0;
  operand.dtype = dtype_of(t);
  operand.shape = t.sizes().vec();
  operand.strides = t.strides().vec();
  return operand;
}

struct BoundCall {
  plan::KernelCall call;
  std::vector<BoundOperand> outputs, inputs;
  BoundCall(const std::string& name, const Tensors& out, const Tensors& in, const std::vector<plan::Attr>& attrs,
            bool accumulate) {
    call.kernel = name;
    call.attrs = attrs;
    call.accumulate = accumulate;
    for (const at::Tensor& t : out) call.outputs.push_back(operand_of(t));
    for (const at::Tensor& t : in) call.inputs.push_back(operand_of(t));
    for (size_t i = 0; i < out.size(); ++i) outputs.push_back({hal::Address(bytes(out[i])), &call.outputs[i]});
    for (size_t i = 0; i < in.size(); ++i) inputs.push_back({hal::Address(bytes(in[i])), &call.inputs[i]});
  }
  static std::byte* bytes(const at::Tensor& t) { return t.defined() ? static_cast<std::byte*>(t.data_ptr()) : nullptr; }
};

at::Tensor in_type(const at::Tensor& t, at::ScalarType type) {
  return t.defined() && at::isFloatingType(t.scalar_type()) ? t.to(type) : t;
}
bool flag(const std::vector<bool>& flags, size_t i) { return i < flags.size() && flags[i]; }

std::string text(const at::Tensor& t) {
  std::ostringstream out;
  out << t;
  return out.str();
}

// References use autograd, which is off on a kernel thread.
Tensors on_plain_thread(const std::function<Tensors()>& f) {
  Tensors result;
  std::exception_ptr failure;
  std::thread thread([&] {
    try {
      result = f();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  thread.join();
  if (failure) std::rethrow_exception(failure);
  return result;
}

}  // namespace

std::map<std::string, int64_t>& seen_allocations() {
  static std::map<std::string, int64_t> seen;
  return seen;
}

bool close(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  if (a.sizes() != b.sizes()) return false;
  if (!at::isFloatingType(a.scalar_type())) return a.eq(b.to(a.scalar_type())).all().item<bool>();
  return at::allclose(a.to(at::kDouble), b.to(at::kDouble), tolerance, tolerance, true);
}

at::Tensor strided_copy(const at::Tensor& t) {
  if (!t.defined() || t.dim() == 0) return t;
  std::vector<int64_t> shape = t.sizes().vec();
  at::Tensor copy;
  if (t.dim() == 1) {
    copy = at::zeros({shape[0], 2}, t.options()).select(1, 0);
  } else {
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    shape.back() += 1;
    copy = at::zeros(shape, t.options()).transpose(-1, -2).narrow(-2, 0, t.size(-2));
  }
  copy.copy_(t);
  return copy;
}

Status run_kernel(const std::string& name, const Tensors& outputs, const Tensors& inputs,
                  const std::vector<plan::Attr>& attrs, bool accumulate) {
  BoundCall bound(name, outputs, inputs, attrs, accumulate);
  auto kernel = kernels::cpu_library().bind(bound.call, bound.outputs, bound.inputs);
  if (!kernel.ok()) return kernel.take_status();
  run(**kernel);
  return {};
}

Tensors gradients(const std::function<at::Tensor(const Tensors&)>& f, Tensors inputs, const std::vector<size_t>& of,
                  const at::Tensor& g) {
  for (size_t i : of) inputs[i] = inputs[i].clone().set_requires_grad(true);
  f(inputs).backward(g);
  Tensors result;
  for (size_t i : of) result.push_back(inputs[i].grad());
  return result;
}

void run(PreparedKernel& kernel) {
  hal::Queue none;
  kernel.run(none);
}

void check(const Case& c) {
  const plan::KernelInfo* info = plan::find_kernel(c.name);
  REQUIRE(info != nullptr);
  Tensors wide;
  for (const at::Tensor& t : c.inputs) wide.push_back(in_type(t, at::kDouble));
  const Tensors expected = on_plain_thread([&] { return c.reference(wide); });

  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    if (type == at::kDouble && !c.f64) continue;
    for (const bool strided : {false, true}) {
      if (strided && !c.strided) continue;
      for (const bool accumulate : {false, true}) {
        if (accumulate && !info->can_accumulate) continue;
        INFO(c.name << (type == at::kFloat ? " f32" : " f64") << (strided ? " strided" : "")
                    << (accumulate ? " accumulate" : ""));
        Tensors inputs, outputs, start;
        for (size_t i = 0; i < c.inputs.size(); ++i) {
          const bool fixed = flag(c.f32_inputs, i);
          at::Tensor t = in_type(c.inputs[i], fixed ? at::kFloat : type);
          if (t.defined()) t = strided && !fixed ? strided_copy(t) : t.clone(at::MemoryFormat::Contiguous);
          inputs.push_back(t);
        }
        for (size_t i = 0; i < expected.size(); ++i) {
          at::Tensor t;
          const bool fixed = flag(c.f32_outputs, i);
          if (expected[i].defined()) {
            t = at::ones(expected[i].sizes(), expected[i].options().dtype(at::isFloatingType(expected[i].scalar_type())
                                                                              ? (fixed ? at::kFloat : type)
                                                                              : expected[i].scalar_type()));
            if (strided && !fixed) t = strided_copy(t);
          }
          outputs.push_back(t);
          start.push_back(t.defined() ? t.clone() : t);
        }
        BoundCall bound(c.name, outputs, inputs, c.attrs, accumulate);
        auto kernel = kernels::cpu_library().bind(bound.call, bound.outputs, bound.inputs);
        INFO((kernel.ok() ? "" : kernel.error().message));
        REQUIRE(kernel.ok());
        run(**kernel);
        const double tolerance = type == at::kFloat ? c.tolerance : 1e-9;
        for (size_t i = 0; i < expected.size(); ++i) {
          if (!outputs[i].defined()) continue;
          INFO("output " << i << "\n" << text(outputs[i]) << "\nexpected\n" << text(expected[i]));
          const double allowed = flag(c.f32_outputs, i) ? c.tolerance : tolerance;
          CHECK(close(outputs[i], accumulate ? expected[i] + start[i] : expected[i], allowed));
        }
        if (type == at::kFloat && !strided) {
          run(**kernel);
          const int64_t before = allocation_count();
          run(**kernel);
          int64_t& most = seen_allocations()[c.name];
          most = std::max(most, allocation_count() - before);
        }
      }
    }
  }

  if (info->in_place < 0) return;
  const auto shared = static_cast<size_t>(info->in_place);
  Tensors inputs;
  for (const at::Tensor& t : c.inputs) inputs.push_back(t.defined() ? t.clone(at::MemoryFormat::Contiguous) : t);
  if (inputs[shared].sizes() != expected[0].sizes()) return;
  INFO(c.name << " in place");
  Tensors outputs{inputs[shared]};
  for (size_t i = 1; i < expected.size(); ++i)
    outputs.push_back(at::empty(
        expected[i].sizes(),
        expected[i].options().dtype(at::isFloatingType(expected[i].scalar_type()) ? at::kFloat
                                                                                  : expected[i].scalar_type())));
  REQUIRE(run_kernel(c.name, outputs, inputs, c.attrs).ok());
  CHECK(close(outputs[0], expected[0], c.tolerance));
}

}  // namespace piper::kernels::testing
