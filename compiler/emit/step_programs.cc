#include "compiler/emit/step_programs.h"

#include <set>

#include "compiler/emit/pack.h"
#include "compiler/ir/state_layout.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/names.h"

namespace piper::emit {
namespace {

constexpr int64_t kScalarBytes = dtype_bytes(ir::kScalarType);

plan::Slot make_slot(std::string name, plan::SlotRole role, int64_t bytes, bool reads, bool writes) {
  plan::Slot slot;
  slot.name = std::move(name);
  slot.role = role;
  slot.bytes = bytes;
  slot.reads = reads;
  slot.writes = writes;
  return slot;
}

plan::Slot number_slot(plan::StepNumber number, DType dtype, bool writes) {
  plan::Slot slot =
      make_slot(std::string(plan::number_name(number)), plan::SlotRole::kScalar, dtype_bytes(dtype), true, writes);
  slot.holds = number;
  return slot;
}

plan::Slot gradient_slot(const OwnedGradient& gradient) {
  plan::Slot slot = make_slot("grad " + gradient.name, plan::SlotRole::kGradient,
                              dtype_bytes(gradient.dtype) * gradient.elements, true, false);
  slot.of = gradient.name;
  return slot;
}

plan::Operand dense(int32_t slot, std::vector<int64_t> shape, DType dtype) {
  plan::Operand o;
  o.slot = slot;
  o.dtype = dtype;
  o.strides = plan::contiguous_strides(shape);
  o.shape = std::move(shape);
  return o;
}
plan::Operand flat(int32_t slot, int64_t elements, DType dtype = ir::kScalarType) {
  return dense(slot, {elements}, dtype);
}
plan::Operand scalar(int32_t slot, int64_t offset = 0, DType dtype = ir::kScalarType) {
  plan::Operand o;
  o.slot = slot;
  o.dtype = dtype;
  o.offset = offset;
  return o;
}

plan::KernelCall call(const std::string& kernel, std::vector<plan::Operand> outputs, std::vector<plan::Operand> inputs,
                      std::string origin) {
  plan::KernelCall c;
  c.kernel = kernel;
  c.outputs = std::move(outputs);
  c.inputs = std::move(inputs);
  c.origin = std::move(origin);
  return c;
}

// For programs that are distinguished by it; f32 goes without saying.
std::string type_mark(DType dtype) { return dtype == DType::kF32 ? "" : "." + std::string(dtype_name(dtype)); }

plan::KernelCall zero(plan::Operand out, const std::string& origin) {
  const std::vector<int64_t> shape = out.shape;
  const std::string dtype(dtype_name(out.dtype));
  plan::KernelCall c = call("fill", {std::move(out)}, {}, origin);
  c.attrs = {{"shape", shape}, {"value", 0.0}, {"to", dtype}};
  return c;
}

}  // namespace

plan::Program finish_program(const std::string& what, DType dtype) {
  plan::Program p;
  p.name = what + ".finish";
  const int64_t bytes = dtype_bytes(dtype);
  p.slots = {make_slot(what + " sum", plan::SlotRole::kGradient, bytes, true, true),
             make_slot(what, plan::SlotRole::kOutput, bytes, false, true)};
  p.calls.push_back(call("copy", {scalar(1, 0, dtype)}, {scalar(0, 0, dtype)}, what));
  p.calls.push_back(zero(scalar(0, 0, dtype), what));
  return p;
}

plan::Program combine_program(const std::string& parameter, int64_t elements, DType dtype,
                              const std::vector<bool>& local, size_t target) {
  plan::Program p;
  p.name = "combine." + parameter + ".";
  const int64_t bytes = elements * dtype_bytes(dtype);
  for (size_t u = 0; u < local.size(); ++u) {
    p.name += local[u] ? 'l' : 'r';
    p.slots.push_back(make_slot("grad use " + std::to_string(u), plan::SlotRole::kGradient, bytes, true, local[u]));
  }
  auto use = [&](size_t u) { return flat(static_cast<int32_t>(u), elements, dtype); };
  if (local.size() == 2) {
    plan::KernelCall add = call("add_into", {use(target)}, {use(1 - target)}, parameter);
    add.accumulate = true;
    p.calls.push_back(std::move(add));
  } else {
    // Left to right into the workspace, then into place: the order of the sum does not depend on `target`.
    p.workspace_bytes = align_up(bytes, kLine);
    plan::Operand sum = flat(plan::Operand::kWorkspace, elements, dtype);
    p.calls.push_back(call("add", {sum}, {use(0), use(1)}, parameter));
    for (size_t u = 2; u < local.size(); ++u) {
      plan::KernelCall add = call("add_into", {sum}, {use(u)}, parameter);
      add.accumulate = true;
      p.calls.push_back(std::move(add));
    }
    p.calls.push_back(call("copy", {use(target)}, {sum}, parameter));
  }
  for (size_t u = 0; u < local.size(); ++u)
    if (local[u] && u != target) p.calls.push_back(zero(use(u), parameter));
  return p;
}

plan::Program norm_part_program(const std::string& name, int64_t num_parameters,
                                const std::vector<OwnedGradient>& owned) {
  plan::Program p;
  p.name = name;
  p.slots.push_back(make_slot("norms", plan::SlotRole::kOutput, kScalarBytes * num_parameters, false, true));
  p.calls.push_back(zero(flat(0, num_parameters), "clip_grad_norm"));
  std::set<uint32_t> has_square;
  for (const OwnedGradient& g : owned) {
    const auto slot = static_cast<int32_t>(p.slots.size());
    p.slots.push_back(gradient_slot(g));
    plan::KernelCall square = call("square_sum", {scalar(0, kScalarBytes * static_cast<int64_t>(g.parameter))},
                                   {flat(slot, g.elements, g.dtype)}, g.name);
    square.accumulate = !has_square.insert(g.parameter).second;
    p.calls.push_back(std::move(square));
  }
  return p;
}

plan::Program check_program(const std::string& name, const std::vector<OwnedGradient>& owned) {
  plan::Program p;
  p.name = name;
  p.slots.push_back(make_slot("overflow", plan::SlotRole::kOutput, kScalarBytes, false, true));
  p.calls.push_back(zero(scalar(0), "loss_scale"));
  for (const OwnedGradient& g : owned) {
    const auto slot = static_cast<int32_t>(p.slots.size());
    p.slots.push_back(gradient_slot(g));
    plan::KernelCall check = call("overflows", {scalar(0)}, {flat(slot, g.elements, g.dtype)}, g.name);
    check.accumulate = true;
    p.calls.push_back(std::move(check));
  }
  return p;
}

plan::Program clip_program(int64_t num_parameters, bool scaled) {
  plan::Program p;
  p.name = "clip";
  p.slots = {make_slot("norms", plan::SlotRole::kInput, kScalarBytes * num_parameters, true, false),
             make_slot("grad_norm", plan::SlotRole::kOutput, kScalarBytes, false, true),
             make_slot("grad_scale", plan::SlotRole::kOutput, kScalarBytes, false, true)};
  plan::KernelCall c = call("clip_scale", {scalar(1), scalar(2)}, {flat(0, num_parameters)}, "clip_grad_norm");
  if (scaled) {
    p.slots.push_back(number_slot(plan::StepNumber::kLossScale, ir::kScalarType, false));
    c.inputs.push_back(scalar(3));
  }
  p.calls.push_back(std::move(c));
  return p;
}

plan::Program unscale_program() {
  plan::Program p;
  p.name = "unscale";
  p.slots = {number_slot(plan::StepNumber::kLossScale, ir::kScalarType, false),
             make_slot("grad_scale", plan::SlotRole::kOutput, kScalarBytes, false, true)};
  p.calls.push_back(call("unscale", {scalar(1)}, {scalar(0)}, "loss_scale"));
  return p;
}

plan::Program add_program(int64_t bytes, DType dtype) {
  plan::Program p;
  p.name = "add." + std::to_string(bytes) + type_mark(dtype);
  p.slots = {make_slot("sum", plan::SlotRole::kGradient, bytes, true, true),
             make_slot("part", plan::SlotRole::kInput, bytes, true, false)};
  const int64_t elements = bytes / dtype_bytes(dtype);
  plan::KernelCall add = call("add_into", {flat(0, elements, dtype)}, {flat(1, elements, dtype)}, "gradient");
  add.accumulate = true;
  p.calls.push_back(std::move(add));
  return p;
}

plan::Program clear_program(int64_t bytes, DType dtype) {
  plan::Program p;
  p.name = "clear." + std::to_string(bytes) + type_mark(dtype);
  p.slots = {make_slot("gradient", plan::SlotRole::kOutput, bytes, false, true)};
  p.calls.push_back(zero(flat(0, bytes / dtype_bytes(dtype), dtype), "gradient"));
  return p;
}

plan::Program advance_program() {
  plan::Program p;
  p.name = "advance";
  p.slots = {make_slot("optimizer_step", plan::SlotRole::kScalar, dtype_bytes(DType::kI64), true, true)};
  p.calls.push_back(call("advance", {scalar(0, 0, DType::kI64)}, {}, "optimizer"));
  return p;
}

plan::Program advance_program(const ir::Precision& precision) {
  plan::Program p = advance_program();
  p.slots.push_back(number_slot(plan::StepNumber::kLossScale, ir::kScalarType, true));
  p.slots.push_back(make_slot("good_steps", plan::SlotRole::kScalar, dtype_bytes(DType::kI64), true, true));
  p.slots.push_back(make_slot("overflow", plan::SlotRole::kInput, kScalarBytes, true, false));
  p.calls[0].inputs.push_back(scalar(3));
  plan::KernelCall follow =
      call("advance_loss_scale", {scalar(1), scalar(2, 0, DType::kI64)}, {scalar(3)}, "loss_scale");
  follow.attrs = {{"dynamic", precision.scaling == ir::LossScale::kDynamic}};
  p.calls.push_back(std::move(follow));
  return p;
}

plan::Program update_program(const UpdateShape& shape) {
  plan::Program p;
  int64_t count = 1;
  std::string extents;
  for (const int64_t extent : shape.shape) {
    count *= extent;
    extents += (extents.empty() ? "" : "x") + std::to_string(extent);
  }
  p.name = shape.optimizer + (shape.scales ? ".clipped." : ".") + extents + type_mark(shape.dtype);
  plan::KernelCall update = call(shape.optimizer, {}, {}, "optimizer");
  const auto next = [&] { return static_cast<int32_t>(p.slots.size()); };
  const auto state = [&](const char* name, plan::SlotRole role) {
    update.outputs.push_back(dense(next(), shape.shape, shape.dtype));
    p.slots.push_back(make_slot(name, role, count * dtype_bytes(shape.dtype), true, true));
  };
  const auto value = [&](const char* name, DType dtype) {
    update.inputs.push_back(scalar(next(), 0, dtype));
    p.slots.push_back(make_slot(name, plan::SlotRole::kScalar, dtype_bytes(dtype), true, false));
  };
  state("parameter", plan::SlotRole::kParameter);
  state("gradient", plan::SlotRole::kGradient);
  if (shape.num_moments > 0) state("m", plan::SlotRole::kMoment);
  if (shape.num_moments > 1) state("v", plan::SlotRole::kMoment);
  update.inputs.push_back(scalar(next(), 0, DType::kF64));
  p.slots.push_back(number_slot(plan::StepNumber::kLearningRate, DType::kF64, false));
  value("optimizer_step", DType::kI64);
  if (shape.scales) value("grad_scale", ir::kScalarType);
  if (shape.skips) {
    p.name += ".skipping";
    value("overflow", ir::kScalarType);
  }
  if (shape.working) {
    p.name += ".to_" + std::string(dtype_name(*shape.working));
    // The copy is the kernel's last output, after moments that the optimizer may lack.
    update.outputs.resize(static_cast<size_t>(plan::find_kernel(shape.optimizer)->outputs) - 1);
    update.outputs.push_back(dense(next(), shape.shape, *shape.working));
    p.slots.push_back(
        make_slot("working", plan::SlotRole::kParameter, count * dtype_bytes(*shape.working), true, true));
  }
  p.calls.push_back(std::move(update));
  return p;
}

plan::Program copy_program(int64_t bytes, int32_t cut) {
  plan::Program p;
  p.name = "copy." + std::to_string(bytes) + (cut < 0 ? "" : ".share" + std::to_string(cut));
  p.slots = {make_slot("from", plan::SlotRole::kInput, bytes, true, false),
             make_slot("to", plan::SlotRole::kOutput, bytes, false, true)};
  const DType dtype = bytes % dtype_bytes(DType::kI32) == 0 ? DType::kI32 : DType::kBool;
  const int64_t elements = bytes / dtype_bytes(dtype);
  p.calls.push_back(call("copy", {flat(1, elements, dtype)}, {flat(0, elements, dtype)}, "copy"));
  if (cut >= 0)
    for (plan::Slot& slot : p.slots) slot.spread = plan::Spread::kShare, slot.cut = cut;
  return p;
}

}  // namespace piper::emit
