#include "compiler/emit/step_programs.h"

#include "compiler/emit/offset_allocator.h"
#include "compiler/ir/state_layout.h"
#include "schemas/plan/chunk_names.h"

namespace piper::emit {
namespace {

constexpr int64_t kStateBytes = dtype_bytes(ir::kStateType);

plan::Slot make_slot(std::string name, plan::SlotRole role, int64_t bytes, bool reads, bool writes) {
  plan::Slot slot;
  slot.name = std::move(name);
  slot.role = role;
  slot.bytes = bytes;
  slot.reads = reads;
  slot.writes = writes;
  return slot;
}

plan::Operand flat(int32_t slot, int64_t elements, DType dtype = ir::kStateType) {
  plan::Operand o;
  o.slot = slot;
  o.dtype = dtype;
  o.shape = {elements};
  o.strides = {1};
  return o;
}
plan::Operand scalar(int32_t slot, int64_t offset = 0, DType dtype = ir::kStateType) {
  plan::Operand o;
  o.slot = slot;
  o.dtype = dtype;
  o.offset = offset;
  return o;
}

plan::KernelCall call(std::string kernel, std::vector<plan::Operand> outputs, std::vector<plan::Operand> inputs,
                      std::string origin) {
  plan::KernelCall c;
  c.kernel = std::move(kernel);
  c.outputs = std::move(outputs);
  c.inputs = std::move(inputs);
  c.origin = std::move(origin);
  return c;
}

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

plan::Program combine_program(const std::string& parameter, int64_t elements, const std::vector<bool>& local,
                              size_t target) {
  plan::Program p;
  p.name = "combine." + parameter + ".";
  const int64_t bytes = elements * kStateBytes;
  for (size_t u = 0; u < local.size(); ++u) {
    p.name += local[u] ? 'l' : 'r';
    p.slots.push_back(make_slot("grad use " + std::to_string(u), plan::SlotRole::kGradient, bytes, true, local[u]));
  }
  auto use = [&](size_t u) { return flat(static_cast<int32_t>(u), elements); };
  if (local.size() == 2) {
    plan::KernelCall add = call("add_into", {use(target)}, {use(1 - target)}, parameter);
    add.accumulate = true;
    p.calls.push_back(std::move(add));
  } else {
    // Left to right into the workspace, then into place: the order of the sum does not depend on `target`.
    p.workspace_bytes = OffsetAllocator::align(bytes);
    plan::Operand sum = flat(plan::Operand::kWorkspace, elements);
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
  p.slots.push_back(make_slot("norms", plan::SlotRole::kOutput, kStateBytes * num_parameters, false, true));
  p.calls.push_back(zero(flat(0, num_parameters), "clip_grad_norm"));
  for (const OwnedGradient& g : owned) {
    const auto slot = static_cast<int32_t>(p.slots.size());
    p.slots.push_back(
        make_slot(plan::gradient_slot_name(g.name), plan::SlotRole::kGradient, kStateBytes * g.elements, true, false));
    p.calls.push_back(call("square_sum", {scalar(0, kStateBytes * static_cast<int64_t>(g.parameter))},
                           {flat(slot, g.elements)}, g.name));
  }
  return p;
}

plan::Program clip_program(int64_t num_parameters, double max_norm) {
  plan::Program p;
  p.name = "clip";
  p.slots = {make_slot("norms", plan::SlotRole::kInput, kStateBytes * num_parameters, true, false),
             make_slot("grad_norm", plan::SlotRole::kOutput, kStateBytes, false, true),
             make_slot("grad_scale", plan::SlotRole::kOutput, kStateBytes, false, true)};
  plan::KernelCall c = call("clip_scale", {scalar(1), scalar(2)}, {flat(0, num_parameters)}, "clip_grad_norm");
  c.attrs = {{"max_norm", max_norm}};
  p.calls.push_back(std::move(c));
  return p;
}

plan::Program add_program(int64_t bytes) {
  plan::Program p;
  p.name = "add." + std::to_string(bytes);
  p.slots = {make_slot("sum", plan::SlotRole::kGradient, bytes, true, true),
             make_slot("part", plan::SlotRole::kInput, bytes, true, false)};
  plan::KernelCall add =
      call("add_into", {flat(0, ir::state_elements(bytes))}, {flat(1, ir::state_elements(bytes))}, "gradient");
  add.accumulate = true;
  p.calls.push_back(std::move(add));
  return p;
}

plan::Program clear_program(int64_t bytes) {
  plan::Program p;
  p.name = "clear." + std::to_string(bytes);
  p.slots = {make_slot("gradient", plan::SlotRole::kOutput, bytes, false, true)};
  p.calls.push_back(zero(flat(0, ir::state_elements(bytes)), "gradient"));
  return p;
}

plan::Program advance_program() {
  plan::Program p;
  p.name = "advance";
  p.slots = {make_slot("optimizer_step", plan::SlotRole::kScalar, dtype_bytes(DType::kI64), true, true)};
  p.calls.push_back(call("advance", {scalar(0, 0, DType::kI64)}, {}, "optimizer"));
  return p;
}

plan::Program update_program(const std::string& optimizer, int64_t count, int32_t num_moments, bool clips) {
  plan::Program p;
  p.name = optimizer + (clips ? ".clipped." : ".") + std::to_string(count);
  plan::KernelCall update = call(optimizer, {}, {}, "optimizer");
  const auto state = [&](const char* name, plan::SlotRole role) {
    update.outputs.push_back(flat(static_cast<int32_t>(p.slots.size()), count));
    p.slots.push_back(make_slot(name, role, count * kStateBytes, true, true));
  };
  const auto value = [&](const char* name, DType dtype) {
    update.inputs.push_back(scalar(static_cast<int32_t>(p.slots.size()), 0, dtype));
    p.slots.push_back(make_slot(name, plan::SlotRole::kScalar, dtype_bytes(dtype), true, false));
  };
  state("parameter", plan::SlotRole::kParameter);
  state("gradient", plan::SlotRole::kGradient);
  if (num_moments > 0) state("m", plan::SlotRole::kMoment);
  if (num_moments > 1) state("v", plan::SlotRole::kMoment);
  value("learning_rate", DType::kF64);
  value("optimizer_step", DType::kI64);
  if (clips) value("grad_scale", ir::kStateType);
  p.calls.push_back(std::move(update));
  return p;
}

plan::Program copy_program(int64_t bytes) {
  plan::Program p;
  p.name = "copy." + std::to_string(bytes);
  p.slots = {make_slot("from", plan::SlotRole::kInput, bytes, true, false),
             make_slot("to", plan::SlotRole::kOutput, bytes, false, true)};
  const DType dtype = bytes % dtype_bytes(DType::kI32) == 0 ? DType::kI32 : DType::kBool;
  const int64_t elements = bytes / dtype_bytes(dtype);
  p.calls.push_back(call("copy", {flat(1, elements, dtype)}, {flat(0, elements, dtype)}, "copy"));
  return p;
}

}  // namespace piper::emit
