#include "compiler/emit/lower_programs.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "compiler/emit/kernel_attrs.h"
#include "compiler/emit/offset_allocator.h"
#include "compiler/emit/plan_workspace.h"
#include "schemas/base/check.h"
#include "schemas/plan/kernels.h"

namespace piper::emit {
namespace {

using ir::ChunkId;
using ir::OpId;
using ir::OpKind;
using ir::Phase;
using ir::ValueId;
using ir::ValueKind;

// A program under construction is identified by its chunk and phase.
using ProgramKey = std::pair<uint32_t, Phase>;

// Where the storage of a root stands, seen from the program that makes it.
enum class Home : uint8_t { kLeaf, kWorkspace, kSaved, kOwnSlot, kCount, kStepValue };

std::vector<int64_t> contiguous(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

// The reads and homes of every root of the graph: what all programs of it share.
struct Usage {
  std::vector<Home> home;                          // [value], of roots
  std::vector<std::set<ProgramKey>> readers;       // [value], of roots
  std::vector<uint32_t> num_reads;                 // [value], of roots: operands of kernels that read it
  std::vector<int64_t> saved_offset;               // [value], in a saved block of its chunk
  std::vector<uint8_t> saved_block;                // [value], a SavedBlock
  std::vector<std::array<int64_t, kNumSavedBlocks>> saved_bytes;  // [chunk]
};

// One gradient contribution that is added into an accumulator.
struct Contribution {
  ValueId value;
  uint32_t parameter = 0;
};

class Lowering {
 public:
  Lowering(const ir::Graph& graph, size_t num_chunks) : graph_(graph), layouts_(lay_out(graph)) {
    usage_.saved_bytes.assign(num_chunks, {});
    parameter_index_.assign(graph.num_values(), -1);
    for (size_t i = 0; i < graph.parameters().size(); ++i)
      parameter_index_[graph.parameters()[i].value.index] = static_cast<int64_t>(i);
    collect_contributions();
    analyse_usage();
    choose_accumulating_kernels();
  }

  LoweredGraph run();

 private:
  const ir::Op& op(size_t i) const { return graph_.op(OpId(i)); }
  ValueId root(ValueId v) const { return layouts_[v.index].root; }
  bool is_call(size_t i) const {
    const OpKind kind = op(i).kind;
    return !skipped_.count(static_cast<uint32_t>(i)) && kind != OpKind::kAccumulateGrad && kind != OpKind::kStepSum && kind != OpKind::kAllToAll &&
           !is_view(graph_, layouts_, OpId(i));
  }
  void collect_contributions();
  void split_sum(ValueId value, uint32_t parameter, ChunkId chunk, std::vector<Contribution>& parts);
  void analyse_usage();
  void choose_accumulating_kernels();
  bool accumulator_strides(ValueId gradient, ValueId root, std::vector<int64_t>& strides) const;

  friend class ProgramBuilder;
  const ir::Graph& graph_;
  std::vector<Layout> layouts_;
  Usage usage_;
  std::vector<int64_t> parameter_index_;                       // [value]
  std::vector<size_t> plain_uses_;                             // [value]: ops that name it
  std::unordered_map<uint32_t, std::vector<Contribution>> contributions_;  // accumulate_grad op -> parts
  std::set<uint32_t> skipped_;                                 // adds that became two accumulations
  // root made by an accumulating kernel -> (parameter, strides of the root over the accumulator)
  std::unordered_map<uint32_t, std::pair<uint32_t, std::vector<int64_t>>> accumulated_;
};

// A sum that only feeds an accumulator is taken apart: each addend is added by the kernel that makes it.
void Lowering::split_sum(ValueId value, uint32_t parameter, ChunkId chunk, std::vector<Contribution>& parts) {
  const ir::Value& v = graph_.value(value);
  if (v.kind == ValueKind::kOpResult) {
    const ir::Op& sum = graph_.op(v.producer);
    const bool only_use = plain_uses_[value.index] == 1;
    if (sum.kind == OpKind::kAdd && only_use && sum.chunk == chunk && graph_.type(sum.operands[0]) == v.type &&
        graph_.type(sum.operands[1]) == v.type && sum.operands[0] != sum.operands[1]) {
      skipped_.insert(v.producer.index);
      split_sum(sum.operands[0], parameter, chunk, parts);
      split_sum(sum.operands[1], parameter, chunk, parts);
      return;
    }
  }
  parts.push_back({value, parameter});
}

void Lowering::collect_contributions() {
  plain_uses_.assign(graph_.num_values(), 0);
  const auto uses = graph_.uses();
  for (size_t v = 0; v < uses.size(); ++v) plain_uses_[v] = uses[v].size();
  for (size_t i = 0; i < graph_.num_ops(); ++i) {
    if (op(i).kind != OpKind::kAccumulateGrad) continue;
    const ValueId parameter = std::get<ir::AccumulateGradAttrs>(op(i).attrs).parameter;
    std::vector<Contribution> parts;
    split_sum(op(i).operands[0], static_cast<uint32_t>(parameter_index_[parameter.index]), op(i).chunk, parts);
    contributions_.emplace(static_cast<uint32_t>(i), std::move(parts));
  }
}

void Lowering::analyse_usage() {
  const size_t n = graph_.num_values();
  usage_.home.assign(n, Home::kLeaf);
  usage_.readers.assign(n, {});
  usage_.num_reads.assign(n, 0);
  usage_.saved_offset.assign(n, 0);
  usage_.saved_block.assign(n, kForBackward);
  auto read = [&](ValueId v, ProgramKey by) {
    usage_.readers[root(v).index].insert(by);
    ++usage_.num_reads[root(v).index];
  };
  for (size_t i = 0; i < graph_.num_ops(); ++i) {
    const ir::Op& o = op(i);
    const ProgramKey key{o.chunk.index, o.phase};
    if (o.kind == OpKind::kAccumulateGrad) {
      for (const Contribution& part : contributions_.at(static_cast<uint32_t>(i))) read(part.value, key);
    } else if (o.kind == OpKind::kStepSum) {
      read(o.operands[0], {o.chunk.index, Phase::kCount});
    } else if (is_call(i) || o.kind == OpKind::kAllToAll) {
      for (ValueId v : o.operands)
        if (v.valid()) read(v, key);
    }
  }
  if (graph_.loss.valid()) {
    const ValueId loss = root(graph_.loss);
    const ir::Value& value = graph_.value(loss);
    if (value.kind == ValueKind::kOpResult) read(loss, {graph_.op(value.producer).chunk.index, Phase::kForward});
  }
  std::vector<std::array<OffsetAllocator, kNumSavedBlocks>> saved(usage_.saved_bytes.size());
  for (size_t i = 0; i < graph_.num_ops(); ++i) {
    const ir::Op& o = op(i);
    const ProgramKey key{o.chunk.index, o.phase};
    for (ValueId result : o.results) {
      if (root(result) != result) continue;
      Home& home = usage_.home[result.index];
      home = Home::kWorkspace;
      if (o.kind == OpKind::kStepSum) {
        home = Home::kCount;
        continue;
      }
      if (o.kind == OpKind::kAllToAll) {
        home = Home::kOwnSlot;
        continue;
      }
      bool elsewhere = false, own_backward = false, own_weight = false;
      for (const ProgramKey& reader : usage_.readers[result.index]) {
        if (reader == key) continue;
        const bool later = reader.first == key.first && (o.phase == Phase::kForward || o.phase == Phase::kBackward);
        if (later && reader.second == Phase::kBackward)
          own_backward = true;
        else if (later && reader.second == Phase::kBackwardWeight)
          own_weight = true;
        else
          elsewhere = true;
      }
      if (o.phase == Phase::kCountFinish) {
        if (elsewhere || own_backward || own_weight) home = Home::kStepValue;
      } else if (elsewhere) {
        home = Home::kOwnSlot;
      } else if (own_backward || own_weight) {
        home = Home::kSaved;
        const SavedBlock block = o.phase == Phase::kBackward ? kInputToWeight : own_weight ? kForWeight : kForBackward;
        usage_.saved_block[result.index] = static_cast<uint8_t>(block);
        usage_.saved_offset[result.index] = saved[o.chunk.index][block].allocate(graph_.type(result).bytes());
      }
    }
  }
  for (size_t c = 0; c < saved.size(); ++c)
    for (size_t b = 0; b < kNumSavedBlocks; ++b) usage_.saved_bytes[c][b] = saved[c][b].high_water();
}

// Strides by which the kernel that makes `root` writes it into the accumulator that `gradient` belongs to.
bool Lowering::accumulator_strides(ValueId gradient, ValueId root_value, std::vector<int64_t>& strides) const {
  const Layout& view = layouts_[gradient.index];
  const ir::TensorType& g = graph_.type(gradient);
  const ir::TensorType& r = graph_.type(root_value);
  const std::vector<int64_t>& physical = layouts_[root_value.index].strides;
  if (view.offset != 0 || g.elements() != r.elements() || g.dtype != r.dtype) return false;
  const std::vector<int64_t> target = contiguous(g.shape);
  if (physical == contiguous(r.shape) && view.strides == target) {
    strides = contiguous(r.shape);
    return true;
  }
  strides.assign(r.shape.size(), 0);
  for (size_t axis = 0; axis < r.shape.size(); ++axis) {
    if (r.shape[axis] == 1) continue;
    bool found = false;
    for (size_t i = 0; i < g.shape.size() && !found; ++i)
      if (g.shape[i] == r.shape[axis] && view.strides[i] == physical[axis]) {
        strides[axis] = target[i];
        found = true;
      }
    if (!found) return false;
  }
  return true;
}

void Lowering::choose_accumulating_kernels() {
  // producing op -> its contributions, by result
  std::map<uint32_t, std::vector<std::pair<Contribution, ValueId>>> by_producer;
  for (const auto& [op_index, parts] : contributions_)
    for (const Contribution& part : parts) {
      const ValueId r = root(part.value);
      const ir::Value& value = graph_.value(r);
      if (value.kind != ValueKind::kOpResult) continue;
      if (graph_.op(value.producer).chunk != op(op_index).chunk || graph_.op(value.producer).phase != op(op_index).phase) continue;
      by_producer[value.producer.index].push_back({part, r});
    }
  for (const auto& [producer, parts] : by_producer) {
    const ir::Op& o = op(producer);
    const OpKind kind = o.kind;
    const std::string_view name = ir::op_name(kind);
    const plan::KernelInfo* kernel = plan::find_kernel(name);
    if ((o.phase != Phase::kBackward && o.phase != Phase::kBackwardWeight) || kernel == nullptr || !kernel->can_accumulate) continue;
    bool all = true;
    std::vector<std::pair<ValueId, std::pair<uint32_t, std::vector<int64_t>>>> chosen;
    for (const auto& [part, r] : parts) {
      std::vector<int64_t> strides;
      if (usage_.num_reads[r.index] != 1 || !accumulator_strides(part.value, r, strides)) {
        all = false;
        break;
      }
      chosen.push_back({r, {part.parameter, std::move(strides)}});
    }
    for (ValueId result : o.results) {
      const bool is_chosen = std::any_of(chosen.begin(), chosen.end(), [&](const auto& c) { return c.first == result; });
      if (!is_chosen && usage_.num_reads[result.index] != 0) all = false;
    }
    if (!all) continue;
    for (auto& [r, where] : chosen) accumulated_.emplace(r.index, std::move(where));
  }
}

// Builds the calls of one (chunk, phase).
class ProgramBuilder {
 public:
  ProgramBuilder(const Lowering& lowering, ProgramKey key) : l_(lowering), key_(key) {
    out_.chunk = ChunkId(key.first);
    out_.phase = key.second;
  }

  void add_op(size_t index);
  void add_loss(ValueId loss);
  void clear_counts();
  LoweredProgram finish() { return std::move(out_); }

 private:
  plan::Operand absent() const { return {}; }
  plan::Operand operand_in_slot(int32_t slot, ValueId v, int64_t base) const;
  plan::Operand read(ValueId v);
  plan::Operand write(ValueId root);
  plan::Operand whole_slot(int32_t slot, DType dtype, const std::vector<int64_t>& shape) const;
  int32_t slot_of_leaf(ValueId root);
  int32_t saved_slot(ValueId root, bool reads, bool writes);
  int32_t slot(SlotHolds holds, std::string name, plan::SlotRole role, int64_t bytes, bool reads, bool writes);
  int32_t gradient_slot(uint32_t parameter);
  void emit(plan::KernelCall call) { out_.program.calls.push_back(std::move(call)); }
  std::string origin(const ir::Op& op) const;

  const Lowering& l_;
  ProgramKey key_;
  LoweredProgram out_;
  std::map<std::tuple<SlotHolds::Kind, uint32_t>, int32_t> slot_index_;
};

int32_t ProgramBuilder::slot(SlotHolds holds, std::string name, plan::SlotRole role, int64_t bytes, bool reads, bool writes) {
  const bool by_value = holds.kind == SlotHolds::Kind::kValue || holds.kind == SlotHolds::Kind::kStepValue ||
                        holds.kind == SlotHolds::Kind::kCount;
  const auto key = std::make_tuple(holds.kind, by_value ? holds.value.index : holds.index);
  auto [it, fresh] = slot_index_.emplace(key, static_cast<int32_t>(out_.holds.size()));
  if (fresh) {
    plan::Slot s;
    s.name = std::move(name);
    s.role = role;
    s.bytes = bytes;
    out_.program.slots.push_back(std::move(s));
    out_.holds.push_back(holds);
  }
  plan::Slot& s = out_.program.slots[it->second];
  s.reads |= reads;
  s.writes |= writes;
  return it->second;
}

plan::Operand ProgramBuilder::operand_in_slot(int32_t slot_number, ValueId v, int64_t base) const {
  const Layout& view = l_.layouts_[v.index];
  const ir::TensorType& type = l_.graph_.type(v);
  plan::Operand o;
  o.slot = slot_number;
  o.offset = base + view.offset * dtype_bytes(type.dtype);
  o.dtype = type.dtype;
  o.shape = type.shape;
  o.strides = view.strides;
  return o;
}

plan::Operand ProgramBuilder::whole_slot(int32_t slot_number, DType dtype, const std::vector<int64_t>& shape) const {
  plan::Operand o;
  o.slot = slot_number;
  o.dtype = dtype;
  o.shape = shape;
  o.strides = contiguous(shape);
  return o;
}

int32_t ProgramBuilder::slot_of_leaf(ValueId r) {
  using Kind = SlotHolds::Kind;
  const ir::Value& value = l_.graph_.value(r);
  const int64_t bytes = value.type.bytes();
  switch (value.kind) {
    case ValueKind::kInput: return slot({Kind::kInput, r, value.payload}, value.name, plan::SlotRole::kInput, bytes, true, false);
    case ValueKind::kParameter:
      return slot({Kind::kParameter, r, value.payload}, value.name, plan::SlotRole::kParameter, bytes, true, false);
    case ValueKind::kBuffer: return slot({Kind::kBuffer, r, value.payload}, value.name, plan::SlotRole::kState, bytes, true, true);
    case ValueKind::kConstant:
      return slot({Kind::kConstant, r, value.payload}, value.name, plan::SlotRole::kConstant, bytes, true, false);
    case ValueKind::kSeedStep: return slot({Kind::kSeedStep, r, 0}, "seed_step", plan::SlotRole::kScalar, bytes, true, false);
    case ValueKind::kSampleOffset:
      return slot({Kind::kSampleOffset, r, 0}, "sample_offset", plan::SlotRole::kScalar, bytes, true, false);
    case ValueKind::kOpResult: break;
  }
  PIPER_CHECK(false, "no leaf: ", value.name);
  return -1;
}

int32_t ProgramBuilder::saved_slot(ValueId r, bool reads, bool writes) {
  static constexpr const char* kNames[kNumSavedBlocks] = {"saved", "saved for W", "kept for W"};
  const uint8_t block = l_.usage_.saved_block[r.index];
  return slot({SlotHolds::Kind::kSaved, {}, block}, kNames[block], plan::SlotRole::kSaved, l_.usage_.saved_bytes[key_.first][block], reads, writes);
}

plan::Operand ProgramBuilder::read(ValueId v) {
  if (!v.valid()) return absent();
  using Kind = SlotHolds::Kind;
  const ValueId r = l_.root(v);
  const ir::Value& value = l_.graph_.value(r);
  if (value.kind != ValueKind::kOpResult) return operand_in_slot(slot_of_leaf(r), v, 0);
  const ir::Op& producer = l_.graph_.op(value.producer);
  const int64_t bytes = value.type.bytes();
  // A slot is read where the program uses what it finds there; what it has written itself it may use anyway.
  const bool own = ProgramKey{producer.chunk.index, producer.phase} == key_;
  switch (l_.usage_.home[r.index]) {
    case Home::kWorkspace: {
      PIPER_CHECK(own, "value '", value.name, "' read across programs");
      plan::Operand o = operand_in_slot(plan::Operand::kWorkspace, v, 0);
      return o;
    }
    case Home::kSaved: {
      return operand_in_slot(saved_slot(r, !own, false), v, l_.usage_.saved_offset[r.index]);
    }
    case Home::kOwnSlot: {
      const int32_t s = slot({Kind::kValue, r, 0}, value.name, own ? plan::SlotRole::kOutput : plan::SlotRole::kInput, bytes, !own, false);
      return operand_in_slot(s, v, 0);
    }
    case Home::kCount: {
      const int32_t s = slot({Kind::kCount, r, 0}, value.name, plan::SlotRole::kGradient, bytes, true, false);
      return operand_in_slot(s, v, 0);
    }
    case Home::kStepValue: {
      const int32_t s = slot({Kind::kStepValue, r, 0}, value.name, plan::SlotRole::kScalar, bytes, !own, false);
      return operand_in_slot(s, v, 0);
    }
    case Home::kLeaf: break;
  }
  PIPER_CHECK(false, "unplaced value ", value.name);
  return {};
}

plan::Operand ProgramBuilder::write(ValueId r) {
  using Kind = SlotHolds::Kind;
  const ir::Value& value = l_.graph_.value(r);
  const int64_t bytes = value.type.bytes();
  switch (l_.usage_.home[r.index]) {
    case Home::kWorkspace: return operand_in_slot(plan::Operand::kWorkspace, r, 0);
    case Home::kSaved:
      return operand_in_slot(saved_slot(r, false, true), r, l_.usage_.saved_offset[r.index]);
    case Home::kOwnSlot:
      return operand_in_slot(slot({Kind::kValue, r, 0}, value.name, plan::SlotRole::kOutput, bytes, false, true), r, 0);
    case Home::kStepValue:
      return operand_in_slot(slot({Kind::kStepValue, r, 0}, value.name, plan::SlotRole::kScalar, bytes, false, true), r, 0);
    case Home::kCount:
    case Home::kLeaf: break;
  }
  PIPER_CHECK(false, "unplaced result ", value.name);
  return {};
}

int32_t ProgramBuilder::gradient_slot(uint32_t parameter) {
  const ir::Parameter& p = l_.graph_.parameters()[parameter];
  return slot({SlotHolds::Kind::kGradient, p.value, parameter}, "grad " + p.names[0], plan::SlotRole::kGradient,
              l_.graph_.type(p.value).bytes(), true, true);
}

std::string ProgramBuilder::origin(const ir::Op& o) const {
  const std::string& scope = l_.graph_.scope(o.scope);
  return scope.empty() ? "model" : scope;
}

void ProgramBuilder::add_op(size_t index) {
  const ir::Op& o = l_.op(index);
  if (o.kind == OpKind::kAccumulateGrad) {
    for (const Contribution& part : l_.contributions_.at(static_cast<uint32_t>(index))) {
      if (l_.accumulated_.count(l_.root(part.value).index)) continue;
      plan::KernelCall call;
      call.kernel = "add_into";
      call.accumulate = true;
      call.inputs.push_back(read(part.value));
      call.outputs.push_back(whole_slot(gradient_slot(part.parameter), l_.graph_.type(part.value).dtype, l_.graph_.type(part.value).shape));
      call.origin = origin(o);
      emit(std::move(call));
    }
    return;
  }
  if (o.kind == OpKind::kStepSum) {
    const ValueId result = o.results[0];
    plan::KernelCall call;
    call.kernel = "add_into";
    call.accumulate = true;
    call.inputs.push_back(read(o.operands[0]));
    const int32_t s = slot({SlotHolds::Kind::kCount, result, 0}, l_.graph_.value(result).name, plan::SlotRole::kGradient,
                           l_.graph_.type(result).bytes(), true, true);
    call.outputs.push_back(whole_slot(s, l_.graph_.type(result).dtype, l_.graph_.type(result).shape));
    call.origin = origin(o);
    emit(std::move(call));
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
      in.shape = l_.graph_.type(o.results[0]).shape;
    } else if (o.kind == OpKind::kPermute) {
      const plan::Operand from = in;
      const auto& dims = std::get<ir::PermuteAttrs>(o.attrs).dims;
      for (size_t axis = 0; axis < dims.size(); ++axis) {
        in.shape[axis] = from.shape[dims[axis]];
        in.strides[axis] = from.strides[dims[axis]];
      }
    } else if (o.kind == OpKind::kExpand) {
      const std::vector<int64_t>& shape = l_.graph_.type(o.results[0]).shape;
      const size_t lead = shape.size() - in.shape.size();
      std::vector<int64_t> strides(shape.size(), 0);
      for (size_t axis = 0; axis < in.shape.size(); ++axis)
        if (in.shape[axis] == shape[lead + axis]) strides[lead + axis] = in.strides[axis];
      in.shape = shape;
      in.strides = std::move(strides);
    }
    plan::Operand out = write(o.results[0]);
    out.shape = in.shape;
    out.strides = contiguous(in.shape);
    call.inputs.push_back(std::move(in));
    call.outputs.push_back(std::move(out));
    emit(std::move(call));
    return;
  }
  call.kernel = std::string(ir::op_name(o.kind));
  for (ValueId v : o.operands) call.inputs.push_back(read(v));
  const bool accumulates =
      std::any_of(o.results.begin(), o.results.end(), [&](ValueId r) { return l_.accumulated_.count(r.index) > 0; });
  call.accumulate = accumulates;
  for (ValueId r : o.results) {
    auto it = l_.accumulated_.find(r.index);
    if (it != l_.accumulated_.end()) {
      plan::Operand out;
      out.slot = gradient_slot(it->second.first);
      out.dtype = l_.graph_.type(r).dtype;
      out.shape = l_.graph_.type(r).shape;
      out.strides = it->second.second;
      call.outputs.push_back(std::move(out));
    } else if (accumulates) {
      call.outputs.push_back(absent());
    } else {
      call.outputs.push_back(write(r));
    }
  }
  call.attrs = kernel_attrs(o.attrs);
  emit(std::move(call));
}

void ProgramBuilder::add_loss(ValueId loss) {
  const ir::TensorType& type = l_.graph_.type(loss);
  plan::KernelCall call;
  call.kernel = "add_into";
  call.accumulate = true;
  call.inputs.push_back(read(loss));
  const int32_t s = slot({SlotHolds::Kind::kLoss, loss, 0}, "loss", plan::SlotRole::kGradient, type.bytes(), true, true);
  call.outputs.push_back(whole_slot(s, type.dtype, {}));
  call.inputs[0].shape = {};
  call.inputs[0].strides = {};
  call.origin = "loss";
  emit(std::move(call));
}

// The counts of the step are read; they start the next step at zero.
void ProgramBuilder::clear_counts() {
  for (size_t s = 0; s < out_.holds.size(); ++s) {
    if (out_.holds[s].kind != SlotHolds::Kind::kCount) continue;
    const ir::TensorType& type = l_.graph_.type(out_.holds[s].value);
    plan::KernelCall call;
    call.kernel = "fill";
    call.outputs.push_back(whole_slot(static_cast<int32_t>(s), type.dtype, type.shape));
    call.attrs = {{"shape", type.shape}, {"value", 0.0}, {"to", std::string(dtype_name(type.dtype))}};
    call.origin = "loss";
    out_.program.slots[s].writes = true;
    emit(std::move(call));
  }
}

LoweredGraph Lowering::run() {
  std::map<ProgramKey, std::vector<size_t>> ops;
  for (size_t i = 0; i < graph_.num_ops(); ++i) {
    const Phase phase = op(i).kind == OpKind::kStepSum ? Phase::kCount : op(i).phase;
    ops[{op(i).chunk.index, phase}].push_back(i);
  }
  ProgramKey loss_program{ChunkId::kNone, Phase::kForward};
  if (graph_.loss.valid()) {
    const ir::Value& loss = graph_.value(root(graph_.loss));
    if (loss.kind == ValueKind::kOpResult) loss_program.first = graph_.op(loss.producer).chunk.index;
  }
  std::vector<int64_t> root_bytes(graph_.num_values());
  for (size_t v = 0; v < root_bytes.size(); ++v) root_bytes[v] = graph_.type(ValueId(v)).bytes();

  LoweredGraph result;
  for (const auto& [key, indices] : ops) {
    ProgramBuilder builder(*this, key);
    std::vector<std::vector<uint32_t>> roots;  // workspace roots of each call
    auto note_roots = [&](size_t i) {
      const ir::Op& o = op(i);
      std::vector<uint32_t> row;
      auto note = [&](ValueId v) {
        if (!v.valid()) return;
        const ValueId r = root(v);
        if (graph_.value(r).kind == ValueKind::kOpResult && usage_.home[r.index] == Home::kWorkspace) row.push_back(r.index);
      };
      if (o.kind == OpKind::kAccumulateGrad) {
        for (const Contribution& part : contributions_.at(static_cast<uint32_t>(i))) {
          if (accumulated_.count(root(part.value).index)) continue;
          row.clear();
          note(part.value);
          roots.push_back(row);
        }
        return;
      }
      if (o.kind == OpKind::kStepSum) {
        note(o.operands[0]);
        roots.push_back(row);
        return;
      }
      if (!is_call(i)) return;
      for (ValueId r : o.results)
        if (!std::any_of(o.results.begin(), o.results.end(), [&](ValueId x) { return accumulated_.count(x.index) > 0; })) note(r);
      for (ValueId v : o.operands) note(v);
      roots.push_back(row);
    };
    for (size_t i : indices) {
      builder.add_op(i);
      note_roots(i);
    }
    if (key == loss_program) {
      builder.add_loss(graph_.loss);
      const ValueId r = root(graph_.loss);
      roots.push_back(usage_.home[r.index] == Home::kWorkspace ? std::vector<uint32_t>{r.index} : std::vector<uint32_t>{});
    }
    if (key.second == Phase::kCountFinish) builder.clear_counts();
    LoweredProgram program = builder.finish();
    roots.resize(program.program.calls.size());
    if (program.program.calls.empty()) continue;
    plan_workspace(program.program, roots, root_bytes);
    result.programs.push_back(std::move(program));
  }
  std::set<std::tuple<Phase, uint32_t, uint32_t, uint32_t>> crossings;
  for (size_t v = 0; v < graph_.num_values(); ++v) {
    if (usage_.home[v] != Home::kOwnSlot) continue;
    const ir::Op& producer = graph_.op(graph_.value(ValueId(v)).producer);
    for (const ProgramKey& reader : usage_.readers[v])
      if (reader.first != producer.chunk.index)
        crossings.emplace(producer.phase, producer.chunk.index, reader.first, static_cast<uint32_t>(v));
  }
  for (size_t i = 0; i < graph_.num_ops(); ++i) {
    if (op(i).kind != OpKind::kAllToAll) continue;
    Exchange exchange{op(i).chunk, op(i).phase, root(op(i).operands[0]), op(i).results[0], {}, {}};
    if (op(i).operands.size() > 2) {
      exchange.send_counts = root(op(i).operands[1]);
      exchange.receive_counts = root(op(i).operands[2]);
    }
    result.exchanges.push_back(exchange);
  }
  for (const auto& [phase, from, to, value] : crossings)
    result.crossings.push_back({ChunkId(from), ChunkId(to), phase, ValueId(value)});
  result.layouts = std::move(layouts_);
  return result;
}

}  // namespace

LoweredGraph lower_programs(const ir::Graph& graph, size_t num_chunks) {
  Lowering lowering(graph, num_chunks);
  return lowering.run();
}

}  // namespace piper::emit
