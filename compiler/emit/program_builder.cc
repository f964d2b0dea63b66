#include "compiler/emit/program_builder.h"

#include <type_traits>
#include <variant>

#include "compiler/emit/plan_workspace.h"
#include "compiler/ir/shapes.h"
#include "schemas/base/check.h"
#include "schemas/plan/call_origin.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/signature.h"

namespace piper::emit {

using ir::kNumSavedBlocks;
using ir::Layout;
using ir::LoweredProgram;
using ir::OpId;
using ir::OpKind;
using ir::SlotHolds;
using ir::ValueId;
using ir::ValueKind;

namespace {

// ", shard at s.yaml:9:5" of the first directive that an entry comes from, "" where there is none.
std::string directive_behind(const ir::Provenance& provenance, ir::ProvId id) {
  if (!id.valid()) return "";
  const ir::ProvEntry& entry = provenance.entry(id);
  if (const auto* directive = std::get_if<ir::DirectiveOrigin>(&entry))
    return ", " + directive->directive + " at " + directive->place;
  if (const auto* derived = std::get_if<ir::DerivedOrigin>(&entry))
    for (ir::ProvId parent : derived->parents)
      if (std::string text = directive_behind(provenance, parent); !text.empty()) return text;
  return "";
}

// The model's node that an entry is, or comes from; nullptr where there is none.
const ir::ModelOrigin* model_behind(const ir::Provenance& provenance, ir::ProvId id) {
  if (!id.valid()) return nullptr;
  const ir::ProvEntry& entry = provenance.entry(id);
  if (const auto* model = std::get_if<ir::ModelOrigin>(&entry)) return model;
  if (const auto* derived = std::get_if<ir::DerivedOrigin>(&entry))
    for (const ir::ProvId parent : derived->parents)
      if (const ir::ModelOrigin* model = model_behind(provenance, parent)) return model;
  return nullptr;
}

struct AttrCollector {
  std::vector<plan::Attr>& out;
  void operator()(const char* name, int64_t v) { out.push_back({name, v}); }
  void operator()(const char* name, double v) { out.push_back({name, v}); }
  void operator()(const char* name, bool v) { out.push_back({name, v}); }
  void operator()(const char* name, const std::string& v) { out.push_back({name, v}); }
  void operator()(const char* name, const std::vector<int64_t>& v) { out.push_back({name, v}); }
  void operator()(const char* name, DType v) { out.push_back({name, std::string(dtype_name(v))}); }
  void operator()(const char*, ir::ValueId) {}
};

// The attributes of an operator as kernel calls carry them: names and values in field order.
std::vector<plan::Attr> kernel_attrs(const ir::Attrs& attrs) {
  std::vector<plan::Attr> list;
  std::visit([&](const auto& a) { std::decay_t<decltype(a)>::fields(a, AttrCollector{list}); }, attrs);
  return list;
}

}  // namespace

// What of the model or of the step a slot holds, as the plan says it.
void ProgramBuilder::say_what(const SlotHolds& holds, plan::Slot& slot) const {
  using Kind = SlotHolds::Kind;
  switch (holds.kind) {
    case Kind::kInput: slot.of = l_.graph.inputs()[holds.index].name; break;
    case Kind::kParameter: slot.of = l_.graph.parameters()[holds.index].names[0]; break;
    case Kind::kGradient: {
      const ir::Parameter& p = l_.graph.parameters()[holds.index];
      slot.of = p.names[0];
      if (p.share >= 0) slot.spread = plan::Spread::kShare, slot.cut = p.share;
      break;
    }
    case Kind::kBuffer: slot.of = l_.graph.buffers()[holds.index].names[0]; break;
    case Kind::kSeedStep: slot.holds = plan::StepNumber::kSeedStep; break;
    case Kind::kSampleOffset: slot.holds = plan::StepNumber::kSampleOffset; break;
    case Kind::kPlace: slot.holds = plan::StepNumber::kPlace; break;
    case Kind::kLossScale: slot.holds = plan::StepNumber::kLossScale; break;
    case Kind::kStepSum:
      slot.holds = l_.sums[holds.index].number;
      slot.term = l_.sums[holds.index].term;
      break;
    case Kind::kValue:
      slot.spread = l_.spreads[holds.value.index].spread;
      slot.cut = l_.spreads[holds.value.index].cut;
      break;
    default: break;  // what chunks make and read
  }
}

int32_t ProgramBuilder::slot(SlotHolds holds, std::string name, plan::SlotRole role, int64_t bytes, bool reads,
                             bool writes) {
  const bool by_value = holds.kind == SlotHolds::Kind::kValue || holds.kind == SlotHolds::Kind::kStepValue ||
                        holds.kind == SlotHolds::Kind::kCount;
  const auto key = std::make_tuple(holds.kind, by_value ? holds.value.index : holds.index);
  auto [it, fresh] = slot_index_.emplace(key, static_cast<int32_t>(out_.holds.size()));
  if (fresh) {
    plan::Slot s;
    s.name = std::move(name);
    s.role = role;
    s.bytes = bytes;
    say_what(holds, s);
    out_.program.slots.push_back(std::move(s));
    out_.holds.push_back(holds);
  }
  plan::Slot& s = out_.program.slots[it->second];
  s.reads |= reads;
  s.writes |= writes;
  return it->second;
}

plan::Operand ProgramBuilder::operand_in_slot(int32_t slot_number, ValueId v, int64_t base) const {
  const Layout& view = l_.layouts[v.index];
  const ir::TensorType& type = l_.graph.type(v);
  plan::Operand o;
  o.slot = slot_number;
  o.offset = base + view.offset * dtype_bytes(type.dtype);
  o.dtype = type.dtype;
  o.shape = type.shape;
  o.strides = view.strides;
  return o;
}

plan::Operand ProgramBuilder::whole_slot(int32_t slot_number, const ir::TensorType& type) {
  plan::Operand o;
  o.slot = slot_number;
  o.dtype = type.dtype;
  o.shape = type.shape;
  o.strides = ir::row_major_strides(type.shape);
  return o;
}

int32_t ProgramBuilder::slot_of_leaf(ValueId r) {
  using Kind = SlotHolds::Kind;
  const ir::Value& value = l_.graph.value(r);
  const int64_t bytes = value.type.bytes();
  switch (value.kind) {
    case ValueKind::kInput:
      return slot({Kind::kInput, r, value.payload}, value.name, plan::SlotRole::kInput, bytes, true, false);
    case ValueKind::kParameter:
      return slot({Kind::kParameter, r, value.payload}, value.name, plan::SlotRole::kParameter, bytes, true, false);
    case ValueKind::kBuffer: {
      const bool trains = l_.graph.means.empty();  // an evaluation reads statistics alone
      return slot({Kind::kBuffer, r, value.payload}, value.name, plan::SlotRole::kState, bytes, true, trains);
    }
    case ValueKind::kConstant:
      return slot({Kind::kConstant, r, value.payload}, value.name, plan::SlotRole::kConstant, bytes, true, false);
    case ValueKind::kSeedStep:
      return slot({Kind::kSeedStep, r, 0}, "seed_step", plan::SlotRole::kScalar, bytes, true, false);
    case ValueKind::kSampleOffset:
      return slot({Kind::kSampleOffset, r, 0}, "sample_offset", plan::SlotRole::kScalar, bytes, true, false);
    case ValueKind::kPlace: return slot({Kind::kPlace, r, 0}, "place", plan::SlotRole::kScalar, bytes, true, false);
    case ValueKind::kLossScale:
      return slot({Kind::kLossScale, r, 0}, "loss_scale", plan::SlotRole::kScalar, bytes, true, false);
    case ValueKind::kOpResult: break;
  }
  PIPER_CHECK(false, "no leaf: ", value.name);
  return -1;
}

int32_t ProgramBuilder::saved_slot(ValueId r, bool reads, bool writes) {
  static constexpr const char* kNames[kNumSavedBlocks] = {"saved", "saved for W", "kept for W"};
  const uint8_t block = l_.usage.saved_block[r.index];
  return slot({SlotHolds::Kind::kSaved, {}, block}, kNames[block], plan::SlotRole::kSaved,
              l_.usage.saved_bytes[key_.first][block], reads, writes);
}

plan::Operand ProgramBuilder::read(ValueId v) {
  if (!v.valid()) return {};
  using Kind = SlotHolds::Kind;
  const ValueId r = l_.root(v);
  const ir::Value& value = l_.graph.value(r);
  if (value.kind != ValueKind::kOpResult) return operand_in_slot(slot_of_leaf(r), v, 0);
  const ir::Op& producer = l_.graph.op(value.producer);
  const int64_t bytes = value.type.bytes();
  // A slot counts as read where the program uses a value that another program wrote, not one of its own.
  const bool own = ProgramKey{producer.chunk.index, producer.phase} == key_;
  switch (l_.usage.home[r.index]) {
    case Home::kWorkspace:
      PIPER_CHECK(own, "value '", value.name, "' read across programs");
      read_.push_back(r.index);
      return operand_in_slot(plan::Operand::kWorkspace, v, 0);
    case Home::kSaved: return operand_in_slot(saved_slot(r, !own, false), v, l_.usage.saved_offset[r.index]);
    case Home::kOwnSlot: {
      const int32_t s = slot({Kind::kValue, r, 0}, value.name, own ? plan::SlotRole::kOutput : plan::SlotRole::kInput,
                             bytes, !own, false);
      return operand_in_slot(s, v, 0);
    }
    case Home::kCount:
      return operand_in_slot(slot({Kind::kCount, r, 0}, value.name, plan::SlotRole::kGradient, bytes, true, false), v,
                             0);
    case Home::kStepValue:
      return operand_in_slot(slot({Kind::kStepValue, r, 0}, value.name, plan::SlotRole::kScalar, bytes, !own, false), v,
                             0);
    case Home::kLeaf: break;
  }
  PIPER_CHECK(false, "unplaced value ", value.name);
  return {};
}

plan::Operand ProgramBuilder::write(ValueId r) {
  using Kind = SlotHolds::Kind;
  const ir::Value& value = l_.graph.value(r);
  const int64_t bytes = value.type.bytes();
  switch (l_.usage.home[r.index]) {
    case Home::kWorkspace: written_.push_back(r.index); return operand_in_slot(plan::Operand::kWorkspace, r, 0);
    case Home::kSaved: return operand_in_slot(saved_slot(r, false, true), r, l_.usage.saved_offset[r.index]);
    case Home::kOwnSlot:
      return operand_in_slot(slot({Kind::kValue, r, 0}, value.name, plan::SlotRole::kOutput, bytes, false, true), r, 0);
    case Home::kStepValue:
      return operand_in_slot(slot({Kind::kStepValue, r, 0}, value.name, plan::SlotRole::kScalar, bytes, false, true), r,
                             0);
    case Home::kCount:
    case Home::kLeaf: break;
  }
  PIPER_CHECK(false, "unplaced result ", value.name);
  return {};
}

int32_t ProgramBuilder::gradient_slot(uint32_t parameter) {
  const ir::Parameter& p = l_.graph.parameters()[parameter];
  return slot({SlotHolds::Kind::kGradient, p.value, parameter}, "grad " + p.names[0], plan::SlotRole::kGradient,
              p.trained(l_.graph.type(p.value)).bytes(), true, true);
}

std::string ProgramBuilder::origin(const ir::Op& o) const {
  std::string module = l_.graph.scope(o.scope);
  // What a run may refuse for the strategy's sake names the strategy's line.
  if (const auto* order = std::get_if<ir::ExpertOrderAttrs>(&o.attrs); order != nullptr && order->strict)
    module += directive_behind(l_.graph.provenance(), o.prov);
  const ir::ModelOrigin* const model = model_behind(l_.graph.provenance(), o.prov);
  return model == nullptr ? plan::call_origin("", module, "") : plan::call_origin(model->node, module, model->source);
}

void ProgramBuilder::emit(plan::KernelCall call) {
  out_.program.calls.push_back(std::move(call));
  std::vector<uint32_t>& roots = roots_.emplace_back(std::move(written_));
  roots.insert(roots.end(), read_.begin(), read_.end());
  written_.clear();
  read_.clear();
}

void ProgramBuilder::add_into(plan::Operand from, plan::Operand sum, std::string origin_text) {
  plan::KernelCall call;
  call.kernel = "add_into";
  call.accumulate = true;
  call.inputs.push_back(std::move(from));
  call.outputs.push_back(std::move(sum));
  call.origin = std::move(origin_text);
  emit(std::move(call));
}

LoweredProgram ProgramBuilder::finish() {
  if (!out_.program.calls.empty()) plan_workspace(out_.program, roots_, l_.root_bytes);
  return std::move(out_);
}

LoweredProgram ProgramBuilder::finish_values() {
  for (size_t c = 0; c < out_.program.calls.size(); ++c) {
    plan::KernelCall& call = out_.program.calls[c];
    size_t position = 0;
    for (auto* operands : {&call.outputs, &call.inputs})
      for (plan::Operand& operand : *operands) {
        if (operand.slot != plan::Operand::kWorkspace) continue;
        const uint32_t root = roots_[c][position++];
        const bool writes = operands == &call.outputs;
        operand.slot = slot({SlotHolds::Kind::kValue, ValueId(root), 0}, l_.graph.value(ValueId(root)).name,
                            plan::SlotRole::kOutput, l_.root_bytes[root], !writes, writes);
      }
  }
  return std::move(out_);
}

void ProgramBuilder::add_op(size_t index) {
  const ir::Op& o = l_.op(index);
  if (o.kind == OpKind::kAccumulateGrad) {
    for (const Contribution& part : l_.contributions.at(static_cast<uint32_t>(index))) {
      if (l_.accumulated.count(l_.root(part.value).index)) continue;
      plan::Operand from = read(part.value);
      add_into(std::move(from), whole_slot(gradient_slot(part.parameter), l_.graph.type(part.value)), origin(o));
    }
    return;
  }
  if (o.kind == OpKind::kStepSum) {
    const ValueId result = o.results[0];
    plan::Operand from = read(o.operands[0]);
    const int32_t s = slot({SlotHolds::Kind::kCount, result, 0}, l_.graph.value(result).name, plan::SlotRole::kGradient,
                           l_.graph.type(result).bytes(), true, true);
    add_into(std::move(from), whole_slot(s, l_.graph.type(result)), origin(o));
    return;
  }
  if (!l_.is_call(index)) return;
  plan::KernelCall call;
  const bool copied_view = o.kind == OpKind::kReshape || o.kind == OpKind::kSlice || o.kind == OpKind::kPermute ||
                           o.kind == OpKind::kExpand || o.kind == OpKind::kDetach;
  call.origin = origin(o);
  if (copied_view) {
    // A reshape that strides cannot express reads its operand in row-major order; a slice becomes a strided read.
    call.kernel = "copy";
    plan::Operand in = read(o.operands[0]);
    if (o.kind == OpKind::kSlice) {
      const auto& s = std::get<ir::SliceAttrs>(o.attrs);
      in.offset += s.start * in.strides[s.dim] * dtype_bytes(in.dtype);
      in.strides[s.dim] *= s.step;
      in.shape = l_.graph.type(o.results[0]).shape;
    } else if (o.kind == OpKind::kPermute) {
      const plan::Operand from = in;
      const auto& dims = std::get<ir::PermuteAttrs>(o.attrs).dims;
      for (size_t axis = 0; axis < dims.size(); ++axis) {
        in.shape[axis] = from.shape[dims[axis]];
        in.strides[axis] = from.strides[dims[axis]];
      }
    } else if (o.kind == OpKind::kExpand) {
      const std::vector<int64_t>& shape = l_.graph.type(o.results[0]).shape;
      in.strides = ir::broadcast_strides(in.shape, in.strides, shape);
      in.shape = shape;
    }
    plan::Operand out = write(o.results[0]);
    out.shape = in.shape;
    out.strides = ir::row_major_strides(in.shape);
    call.inputs.push_back(std::move(in));
    call.outputs.push_back(std::move(out));
    emit(std::move(call));
    return;
  }
  call.kernel = std::string(ir::op_name(o.kind));
  for (ValueId v : o.operands) call.inputs.push_back(read(v));
  call.accumulate =
      std::any_of(o.results.begin(), o.results.end(), [&](ValueId r) { return l_.accumulated.count(r.index) > 0; });
  const plan::KernelInfo* const kernel = plan::find_kernel(call.kernel);
  for (size_t i = 0; i < o.results.size(); ++i) {
    const ValueId r = o.results[i];
    auto it = l_.accumulated.find(r.index);
    if (it != l_.accumulated.end()) {
      plan::Operand out;
      out.slot = gradient_slot(it->second.first);
      out.dtype = l_.graph.type(r).dtype;
      out.shape = l_.graph.type(r).shape;
      out.strides = it->second.second;
      call.outputs.push_back(std::move(out));
    } else if (call.accumulate && (kernel == nullptr || !plan::signature_of(*kernel).outputs[i].work)) {
      call.outputs.push_back({});
    } else {
      call.outputs.push_back(write(r));
    }
  }
  call.attrs = kernel_attrs(o.attrs);
  if (o.kind == OpKind::kOwnPart) select_part(call);
  emit(std::move(call));
}

// The part of a place is one of the rows of the outermost axis.
void ProgramBuilder::select_part(plan::KernelCall& call) {
  call.kernel = "index_select";
  call.attrs = {{"dim", int64_t{0}}};
  plan::Operand& part = call.outputs[0];
  int64_t elements = 1;
  for (const int64_t extent : part.shape) elements *= extent;
  part.shape.insert(part.shape.begin(), 1);
  part.strides.insert(part.strides.begin(), elements);
}

void ProgramBuilder::add_to_step(uint32_t row, ValueId addend) {
  const std::string& name = l_.sums[row].name;
  const ir::TensorType& type = l_.graph.type(addend);
  plan::Operand from = read(addend);
  from.shape = {};
  from.strides = {};
  const int32_t s =
      slot({SlotHolds::Kind::kStepSum, addend, row}, name, plan::SlotRole::kGradient, type.bytes(), true, true);
  add_into(std::move(from), whole_slot(s, {type.dtype, {}}), name);
}

// The counts of the step are read; they start the next step at zero.
void ProgramBuilder::clear_counts() {
  for (size_t s = 0; s < out_.holds.size(); ++s) {
    if (out_.holds[s].kind != SlotHolds::Kind::kCount) continue;
    const ir::TensorType& type = l_.graph.type(out_.holds[s].value);
    plan::KernelCall call;
    call.kernel = "fill";
    call.outputs.push_back(whole_slot(static_cast<int32_t>(s), type));
    call.attrs = {{"shape", type.shape}, {"value", 0.0}, {"to", std::string(dtype_name(type.dtype))}};
    call.origin = "loss";
    out_.program.slots[s].writes = true;
    emit(std::move(call));
  }
}

}  // namespace piper::emit
