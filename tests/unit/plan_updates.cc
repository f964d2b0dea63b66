#include "tests/unit/plan_updates.h"

#include <algorithm>

#include "schemas/plan/kernels.h"
#include "schemas/plan/names.h"
#include "schemas/plan/optimizers.h"

namespace piper::plan::example {
namespace {

template <class Items>
int32_t named(const Items& items, const std::string& name) {
  for (size_t i = 0; i < items.size(); ++i)
    if (items[i].name == name) return static_cast<int32_t>(i);
  return -1;
}

int32_t program(Bundle& bundle, Program wanted) {
  const int32_t known = named(bundle.programs, wanted.name);
  if (known >= 0) return known;
  bundle.programs.push_back(std::move(wanted));
  return static_cast<int32_t>(bundle.programs.size()) - 1;
}

int32_t buffer(RankPlan& plan, const std::string& name, BufferClass cls, DType dtype) {
  const int32_t known = named(plan.buffers, name);
  if (known >= 0) return known;
  int64_t offset = 0;  // after the others of its class
  for (const Buffer& other : plan.buffers)
    if (other.cls == cls) offset = std::max(offset, (other.offset + other.bytes + 63) / 64 * 64);
  plan.buffers.push_back({name, cls, 8, offset, dtype, {}});
  return static_cast<int32_t>(plan.buffers.size()) - 1;
}

int32_t arguments(RankPlan& plan, std::string name, std::vector<BufferRange> ranges) {
  while (named(plan.arguments, name) >= 0) name += "'";
  plan.arguments.push_back({std::move(name), std::move(ranges)});
  return static_cast<int32_t>(plan.arguments.size()) - 1;
}

// For a matrix whole rows, or the first elements of one.
std::vector<int64_t> shape_of(const UpdateRanges& ranges) {
  if (ranges.columns == 0) return {ranges.count};
  if (ranges.count % ranges.columns != 0) return {1, ranges.count};
  return {ranges.count / ranges.columns, ranges.columns};
}

Program update_program(const std::string& kind, const UpdateRanges& ranges) {
  const std::vector<int64_t> shape = shape_of(ranges), strides = contiguous_strides(shape);
  Program program;
  program.name = (ranges.columns == 0 ? kind : kind + "." + std::to_string(ranges.columns) + "_columns") +
                 (ranges.m.buffer >= 0 ? ".m" : "") + (ranges.v.buffer >= 0 ? ".v" : "") +
                 (ranges.scale.buffer >= 0 ? ".clipped." : ".") + std::to_string(ranges.count) +
                 (ranges.overflow.buffer >= 0 ? ".skipping" : "") +
                 (ranges.working.buffer >= 0 ? ".to_" + std::string(dtype_name(ranges.working_type)) : "");
  KernelCall call;
  call.kernel = kind;
  call.origin = "optimizer";
  const auto state = [&](const char* name, SlotRole role) {
    call.outputs.push_back({static_cast<int32_t>(program.slots.size()), 0, DType::kF32, shape, strides});
    program.slots.push_back({name, role, 4 * ranges.count, true, true});
  };
  const auto value = [&](const char* name, DType dtype) {
    call.inputs.push_back({static_cast<int32_t>(program.slots.size()), 0, dtype, {}, {}});
    program.slots.push_back({name, SlotRole::kScalar, dtype_bytes(dtype), true, false});
  };
  state("parameter", SlotRole::kParameter);
  state("gradient", SlotRole::kGradient);
  if (ranges.m.buffer >= 0) state("m", SlotRole::kMoment);
  if (ranges.v.buffer >= 0) state("v", SlotRole::kMoment);
  value("learning_rate", DType::kF64);
  value("optimizer_step", DType::kI64);
  if (ranges.scale.buffer >= 0) value("grad_scale", DType::kF32);
  if (ranges.overflow.buffer >= 0) value("overflow", DType::kF32);
  if (ranges.working.buffer >= 0) {
    call.outputs.resize(static_cast<size_t>(find_kernel(kind)->outputs) - 1);
    call.outputs.push_back({static_cast<int32_t>(program.slots.size()), 0, ranges.working_type, shape, strides});
    program.slots.push_back(
        {"working", SlotRole::kParameter, dtype_bytes(ranges.working_type) * ranges.count, true, true});
  }
  program.calls = {call};
  return program;
}

}  // namespace

Program advance_program() {
  Program program;
  program.name = "advance";
  program.slots = {{"optimizer_step", SlotRole::kScalar, 8, true, true}};
  program.calls = {{"advance", false, {{0, 0, DType::kI64, {}, {}}}, {}, {}, "optimizer"}};
  return program;
}

void append_advance(Bundle& bundle, RankPlan& plan, int32_t stream, int32_t provenance) {
  plan.learning_rate = {buffer(plan, "learning_rate", BufferClass::kScalar, DType::kF64), 0};
  const int32_t step = buffer(plan, "optimizer_step", BufferClass::kTraining, DType::kI64);
  const int32_t known = named(plan.arguments, "advance");
  const Run run{program(bundle, advance_program()), known >= 0 ? known : arguments(plan, "advance", {{step, 0}}), {}};
  plan.instructions.push_back({stream, run, provenance});
}

void append_update(Bundle& bundle, RankPlan& plan, int32_t stream, const UpdateRanges& ranges, int32_t group,
                   int32_t provenance) {
  Update update;
  update.group = group;
  set_ranges(bundle, plan, update, ranges);
  plan.instructions.push_back({stream, update, provenance});
}

UpdateRanges ranges_of(const Bundle& bundle, const RankPlan& plan, const Update& update) {
  const Program& program = bundle.programs[static_cast<size_t>(update.program)];
  const ArgumentList& list = plan.arguments[static_cast<size_t>(update.arguments)];
  UpdateRanges ranges;
  for (size_t slot = 0; slot < program.slots.size(); ++slot) {
    const std::string& name = program.slots[slot].name;
    if (name == "parameter") {
      ranges.parameter = list.arguments[slot];
      ranges.count = program.slots[slot].bytes / 4;
      const std::vector<int64_t>& shape = program.calls[0].outputs[0].shape;
      ranges.columns = shape.size() == 2 ? shape[1] : 0;
    }
    if (name == "gradient") ranges.gradient = list.arguments[slot];
    if (name == "m") ranges.m = list.arguments[slot];
    if (name == "v") ranges.v = list.arguments[slot];
    if (name == "grad_scale") ranges.scale = list.arguments[slot];
    if (name == "overflow") ranges.overflow = list.arguments[slot];
    if (name != "working") continue;
    ranges.working = list.arguments[slot];
    ranges.working_type = program.calls[0].outputs.back().dtype;
  }
  return ranges;
}

void set_ranges(Bundle& bundle, RankPlan& plan, Update& update, const UpdateRanges& ranges) {
  std::vector<BufferRange> list = {ranges.parameter, ranges.gradient};
  for (const BufferRange& moment : {ranges.m, ranges.v})
    if (moment.buffer >= 0) list.push_back(moment);
  list.push_back(plan.learning_rate);
  list.push_back({named(plan.buffers, "optimizer_step"), 0});
  for (const BufferRange& more : {ranges.scale, ranges.overflow, ranges.working})
    if (more.buffer >= 0) list.push_back(more);
  const std::string& parameter = plan.buffers[static_cast<size_t>(ranges.parameter.buffer)].name;
  const Optimizer& optimizer = bundle.manifest.optimizer;
  const bool known = static_cast<size_t>(update.group) < optimizer.groups.size();
  const std::string kind = known ? group_update(optimizer, update.group).numbers.kind : optimizer.kind;
  update.program = program(bundle, update_program(kind, ranges));
  update.arguments = arguments(plan, "update " + parameter + " from " + std::to_string(ranges.parameter.offset), list);
}

}  // namespace piper::plan::example
