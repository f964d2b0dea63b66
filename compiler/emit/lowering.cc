#include "compiler/emit/lowering.h"

#include <algorithm>
#include <map>

#include "compiler/emit/pack.h"
#include "compiler/ir/shapes.h"
#include "schemas/plan/kernels.h"

namespace piper::emit {

using ir::ChunkId;
using ir::kForBackward;
using ir::kForWeight;
using ir::kInputToWeight;
using ir::kNumSavedBlocks;
using ir::Layout;
using ir::OpId;
using ir::OpKind;
using ir::Phase;
using ir::SavedBlock;
using ir::ValueId;
using ir::ValueKind;

Lowering::Lowering(const ir::Graph& g, size_t num_chunks, const std::vector<Layout>* like)
    : graph(g), sums(ir::step_sums(g)), layouts(lay_out(g, like)), spreads(ir::find_spreads(g)) {
  usage.saved_bytes.assign(num_chunks, {});
  for (size_t v = 0; v < graph.num_values(); ++v) root_bytes.push_back(graph.type(ValueId(v)).bytes());
  parameter_index.assign(graph.num_values(), -1);
  for (size_t i = 0; i < graph.parameters().size(); ++i)
    parameter_index[graph.parameters()[i].value.index] = static_cast<int64_t>(i);
  collect_contributions();
  analyse_usage();
  choose_accumulating_kernels();
}

// A sum that only feeds an accumulator is taken apart: each addend is added by the kernel that makes it.
void Lowering::split_sum(ValueId value, uint32_t parameter, ChunkId chunk, std::vector<Contribution>& parts) {
  const ir::Value& v = graph.value(value);
  if (v.kind == ValueKind::kOpResult) {
    const ir::Op& sum = graph.op(v.producer);
    const bool only_use = plain_uses[value.index] == 1;
    if (sum.kind == OpKind::kAdd && only_use && sum.chunk == chunk && graph.type(sum.operands[0]) == v.type &&
        graph.type(sum.operands[1]) == v.type && sum.operands[0] != sum.operands[1]) {
      skipped.insert(v.producer.index);
      split_sum(sum.operands[0], parameter, chunk, parts);
      split_sum(sum.operands[1], parameter, chunk, parts);
      return;
    }
  }
  parts.push_back({value, parameter});
}

void Lowering::collect_contributions() {
  plain_uses.assign(graph.num_values(), 0);
  const auto uses = graph.uses();
  for (size_t v = 0; v < uses.size(); ++v) plain_uses[v] = uses[v].size();
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    if (op(i).kind != OpKind::kAccumulateGrad) continue;
    const ValueId parameter = std::get<ir::AccumulateGradAttrs>(op(i).attrs).parameter;
    std::vector<Contribution> parts;
    split_sum(op(i).operands[0], static_cast<uint32_t>(parameter_index[parameter.index]), op(i).chunk, parts);
    contributions.emplace(static_cast<uint32_t>(i), std::move(parts));
  }
}

void Lowering::analyse_usage() {
  const size_t n = graph.num_values();
  usage.home.assign(n, Home::kLeaf);
  usage.readers.assign(n, {});
  usage.num_reads.assign(n, 0);
  usage.saved_offset.assign(n, 0);
  usage.saved_block.assign(n, kForBackward);
  auto read = [&](ValueId v, ProgramKey by) {
    usage.readers[root(v).index].insert(by);
    ++usage.num_reads[root(v).index];
  };
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& o = op(i);
    const ProgramKey key{o.chunk.index, o.phase};
    if (o.kind == OpKind::kAccumulateGrad) {
      for (const Contribution& part : contributions.at(static_cast<uint32_t>(i))) read(part.value, key);
    } else if (o.kind == OpKind::kStepSum) {
      read(o.operands[0], {o.chunk.index, Phase::kCount});
    } else if (is_call(i) || ir::is_communication(o.kind)) {
      for (ValueId v : o.operands)
        if (v.valid()) read(v, key);
    }
  }
  for (const ir::StepSum& sum : sums)
    for (ValueId addend : sum.addends) {
      const ir::Value& value = graph.value(root(addend));
      if (value.kind == ValueKind::kOpResult) read(addend, {graph.op(value.producer).chunk.index, Phase::kForward});
    }
  std::vector<std::array<std::vector<uint32_t>, kNumSavedBlocks>> saved(usage.saved_bytes.size());  // values
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& o = op(i);
    const ProgramKey key{o.chunk.index, o.phase};
    for (ValueId result : o.results) {
      if (root(result) != result) continue;
      Home& home = usage.home[result.index];
      home = Home::kWorkspace;
      if (o.kind == OpKind::kStepSum) {
        home = Home::kCount;
        continue;
      }
      if (ir::is_communication(o.kind)) {
        home = Home::kOwnSlot;
        continue;
      }
      bool elsewhere = false, own_backward = false, own_weight = false;
      for (const ProgramKey& reader : usage.readers[result.index]) {
        if (reader == key) continue;
        const bool later = reader.first == key.first && (o.phase == Phase::kForward || o.phase == Phase::kBackward);
        if (later && reader.second == Phase::kBackward) own_backward = true;
        else if (later && reader.second == Phase::kBackwardWeight) own_weight = true;
        else elsewhere = true;
      }
      if (o.phase == Phase::kCountFinish) {
        if (elsewhere || own_backward || own_weight) home = Home::kStepValue;
      } else if (elsewhere) {
        home = Home::kOwnSlot;
      } else if (own_backward || own_weight) {
        home = Home::kSaved;
        const SavedBlock block = o.phase == Phase::kBackward ? kInputToWeight : own_weight ? kForWeight : kForBackward;
        usage.saved_block[result.index] = static_cast<uint8_t>(block);
        saved[o.chunk.index][block].push_back(result.index);
      }
    }
  }
  for (size_t c = 0; c < saved.size(); ++c)
    for (size_t b = 0; b < kNumSavedBlocks; ++b) {
      std::vector<plan::Life> lives;  // all of a block is there between its two programs
      for (const uint32_t v : saved[c][b]) lives.push_back({0, 1, graph.type(ValueId(v)).bytes()});
      const Packed packed = pack(lives, kLine);
      for (size_t v = 0; v < lives.size(); ++v) usage.saved_offset[saved[c][b][v]] = packed.offsets[v];
      usage.saved_bytes[c][b] = packed.bytes;
    }
}

// Strides by which the kernel that makes `root` writes it into the accumulator that `gradient` belongs to.
bool Lowering::accumulator_strides(ValueId gradient, ValueId root_value, std::vector<int64_t>& strides) const {
  const Layout& view = layouts[gradient.index];
  const ir::TensorType& g = graph.type(gradient);
  const ir::TensorType& r = graph.type(root_value);
  const std::vector<int64_t>& physical = layouts[root_value.index].strides;
  if (view.offset != 0 || g.elements() != r.elements() || g.dtype != r.dtype) return false;
  const std::vector<int64_t> target = ir::row_major_strides(g.shape);
  if (physical == ir::row_major_strides(r.shape) && view.strides == target) {
    strides = ir::row_major_strides(r.shape);
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
  for (const auto& [op_index, parts] : contributions)
    for (const Contribution& part : parts) {
      const ValueId r = root(part.value);
      const ir::Value& value = graph.value(r);
      if (value.kind != ValueKind::kOpResult) continue;
      if (graph.op(value.producer).chunk != op(op_index).chunk || graph.op(value.producer).phase != op(op_index).phase)
        continue;
      by_producer[value.producer.index].push_back({part, r});
    }
  for (const auto& [producer, parts] : by_producer) {
    const ir::Op& o = op(producer);
    const OpKind kind = o.kind;
    const std::string_view name = ir::op_name(kind);
    const plan::KernelInfo* kernel = plan::find_kernel(name);
    if ((o.phase != Phase::kBackward && o.phase != Phase::kBackwardWeight) || kernel == nullptr ||
        !kernel->can_accumulate)
      continue;
    bool all = true;
    std::vector<std::pair<ValueId, std::pair<uint32_t, std::vector<int64_t>>>> chosen;
    for (const auto& [part, r] : parts) {
      std::vector<int64_t> strides;
      if (usage.num_reads[r.index] != 1 || !accumulator_strides(part.value, r, strides)) {
        all = false;
        break;
      }
      chosen.push_back({r, {part.parameter, std::move(strides)}});
    }
    for (ValueId result : o.results) {
      const bool is_chosen =
          std::any_of(chosen.begin(), chosen.end(), [&](const auto& c) { return c.first == result; });
      if (!is_chosen && usage.num_reads[result.index] != 0) all = false;
    }
    if (!all) continue;
    for (auto& [r, where] : chosen) accumulated.emplace(r.index, std::move(where));
  }
}

}  // namespace piper::emit
