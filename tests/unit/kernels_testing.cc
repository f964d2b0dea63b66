#include "tests/unit/kernels_testing.h"

#include <thread>

#include "schemas/plan/kernels.h"

namespace piper::kernels::testing {
namespace {

DType dtype_of(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case at::kFloat: return DType::kF32;
    case at::kDouble: return DType::kF64;
    case at::kBFloat16: return DType::kBF16;
    case at::kHalf: return DType::kF16;
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
bool is_half(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; }
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

namespace {

class CpuSubject : public Subject {
 public:
  const Library& library() override { return cpu_library(); }
  void run(PreparedKernel& kernel) override {
    hal::Queue none;  // kernels of the CPU ignore it
    kernel.run(none);
  }
  bool concerns(const std::string&) override { return true; }
};

Subject*& chosen_subject() {
  static CpuSubject cpu;
  static Subject* chosen = &cpu;
  return chosen;
}

}  // namespace

Subject& subject() { return *chosen_subject(); }
void choose_subject(Subject& other) { chosen_subject() = &other; }

std::map<std::string, int64_t>& seen_allocations() {
  static std::map<std::string, int64_t> seen;
  return seen;
}

std::set<std::string>& refused_halves() {
  static std::set<std::string> refused;
  return refused;
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
                  const std::vector<plan::Attr>& attrs, bool accumulate, const TrainingNumbers& numbers) {
  BoundCall bound(name, outputs, inputs, attrs, accumulate);
  auto kernel = subject().library().bind(bound.call, bound.outputs, bound.inputs, numbers);
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

void run(PreparedKernel& kernel) { subject().run(kernel); }

namespace {

// One form of a case: element type of its floating-point operands, strides, sum or result.
struct Form {
  at::ScalarType type;
  bool strided, accumulate;
};

// The operands as the form has them. Statistics stay f32 and dense.
Tensors inputs_of(const Case& c, const Form& form) {
  Tensors inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const bool fixed = flag(c.f32_inputs, i);
    at::Tensor t = in_type(c.inputs[i], fixed ? at::kFloat : form.type);
    if (t.defined()) t = form.strided && !fixed ? strided_copy(t) : t.clone(at::MemoryFormat::Contiguous);
    inputs.push_back(t);
  }
  return inputs;
}

Tensors outputs_of(const Case& c, const Form& form, const Tensors& expected) {
  Tensors outputs;
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool fixed = flag(c.f32_outputs, i);
    at::Tensor t;
    if (expected[i].defined()) {
      const at::ScalarType own = expected[i].scalar_type();
      const at::ScalarType type = !at::isFloatingType(own) ? own : fixed ? at::kFloat : form.type;
      t = at::ones(expected[i].sizes(), expected[i].options().dtype(type));
      if (form.strided && !fixed) t = strided_copy(t);
    }
    outputs.push_back(t);
  }
  return outputs;
}

Tensors reference(const Case& c, at::ScalarType type) {
  Tensors wide;
  for (size_t i = 0; i < c.inputs.size(); ++i)
    wide.push_back(in_type(in_type(c.inputs[i], flag(c.f32_inputs, i) ? at::kFloat : type), at::kDouble));
  return on_plain_thread([&] { return c.reference(wide); });
}

double tolerance_of(const Case& c, at::ScalarType type, bool f32_output) {
  if (type == at::kDouble && !f32_output) return 1e-9;
  return is_half(type) ? c.half_tolerance * (type == at::kHalf ? 0x1p-10 : 0x1p-7) : c.tolerance;
}

void check_form(const Case& c, const Form& form, const Tensors& expected) {
  INFO(c.name << " " << toString(form.type) << (form.strided ? " strided" : "")
              << (form.accumulate ? " accumulate" : ""));
  const Tensors inputs = inputs_of(c, form), outputs = outputs_of(c, form, expected);
  Tensors start;
  for (const at::Tensor& t : outputs) start.push_back(t.defined() ? t.to(at::kDouble, false, true) : t);
  BoundCall bound(c.name, outputs, inputs, c.attrs, form.accumulate);
  auto kernel = subject().library().bind(bound.call, bound.outputs, bound.inputs, c.numbers);
  if (!kernel.ok() && is_half(form.type)) {
    CHECK(kernel.error().message.find("element type") != std::string::npos);
    refused_halves().insert(c.name);
    return;
  }
  INFO((kernel.ok() ? "" : kernel.error().message));
  REQUIRE(kernel.ok());
  run(**kernel);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!outputs[i].defined()) continue;
    INFO("output " << i << "\n" << text(outputs[i]) << "\nexpected\n" << text(expected[i]));
    CHECK(close(outputs[i], form.accumulate ? expected[i] + start[i] : expected[i],
                tolerance_of(c, form.type, flag(c.f32_outputs, i)) * (form.accumulate ? 2 : 1)));
  }
  if (form.type != at::kFloat || form.strided) return;
  run(**kernel);
  const int64_t before = allocation_count();
  run(**kernel);
  int64_t& most = seen_allocations()[c.name];
  most = std::max(most, allocation_count() - before);
}

}  // namespace

void check(const Case& c) {
  const plan::KernelInfo* info = plan::find_kernel(c.name);
  REQUIRE(info != nullptr);
  if (!subject().concerns(c.name)) return;
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    if ((type == at::kDouble && !c.f64) || (is_half(type) && c.half_tolerance == 0)) continue;
    const Tensors expected = reference(c, type);
    const bool sums = info->can_accumulate && at::isFloatingType(expected[0].scalar_type()) &&
                      (c.name != "cast" || at::isFloatingType(c.inputs[0].scalar_type()));
    for (const bool strided : {false, true})
      for (const bool accumulate : {false, true})
        if ((!strided || c.strided) && (!accumulate || sums)) check_form(c, {type, strided, accumulate}, expected);
  }

  if (info->in_place < 0) return;
  const auto shared = static_cast<size_t>(info->in_place);
  Tensors inputs;
  for (const at::Tensor& t : c.inputs) inputs.push_back(t.defined() ? t.clone(at::MemoryFormat::Contiguous) : t);
  const Tensors expected = reference(c, at::kFloat);
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
