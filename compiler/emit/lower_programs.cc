#include "compiler/emit/lower_programs.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "compiler/emit/lowering.h"
#include "compiler/emit/program_builder.h"
#include "compiler/ir/step_scalars.h"
#include "schemas/base/check.h"
#include "schemas/base/parallel.h"

namespace piper::emit {

using ir::ChunkId;
using ir::Crossing;
using ir::Exchange;
using ir::Layout;
using ir::LoweredGraph;
using ir::LoweredProgram;
using ir::OpId;
using ir::OpKind;
using ir::Phase;
using ir::ValueId;
using ir::ValueKind;

namespace {

// `like`: the same graph lowered for another batch, or null (layout.h).
LoweredGraph lower_graph(const ir::Graph& graph, size_t num_chunks, const LoweredGraph* like) {
  Lowering l(graph, num_chunks, like != nullptr ? &like->layouts : nullptr);
  std::map<ProgramKey, std::vector<size_t>> ops;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const Phase phase = l.op(i).kind == OpKind::kStepSum ? Phase::kCount : l.op(i).phase;
    ops[{l.op(i).chunk.index, phase}].push_back(i);
  }
  const std::vector<ir::StepSum>& sums = l.sums;
  std::map<ProgramKey, std::vector<std::pair<uint32_t, ValueId>>> added;  // what forwards add to which sum
  for (uint32_t row = 0; row < sums.size(); ++row)
    for (ValueId addend : sums[row].addends) {
      const ir::Value& value = graph.value(l.root(addend));
      if (value.kind == ValueKind::kOpResult)
        added[{graph.op(value.producer).chunk.index, Phase::kForward}].push_back({row, addend});
    }

  LoweredGraph result;
  const std::vector<std::pair<ProgramKey, std::vector<size_t>>> keyed(ops.begin(), ops.end());
  std::vector<LoweredProgram> programs(keyed.size());
  parallel_for(keyed.size(), [&](size_t p) {
    const auto& [key, indices] = keyed[p];
    ProgramBuilder builder(l, key);
    for (size_t i : indices) builder.add_op(i);
    if (const auto rows = added.find(key); rows != added.end())
      for (const auto& [row, addend] : rows->second) builder.add_to_step(row, addend);
    if (key.second == Phase::kCountFinish) builder.clear_counts();
    programs[p] = builder.finish();
  });
  for (LoweredProgram& program : programs)
    if (!program.program.calls.empty()) result.programs.push_back(std::move(program));
  std::map<std::tuple<Phase, uint32_t, uint32_t, uint32_t>, Phase> crossings;  // to the first phase that reads
  for (size_t v = 0; v < graph.num_values(); ++v) {
    if (l.usage.home[v] != Home::kOwnSlot) continue;
    const ir::Op& producer = graph.op(graph.value(ValueId(v)).producer);
    for (const ProgramKey& reader : l.usage.readers[v]) {  // of one chunk in the order of its phases
      const std::tuple crossing(producer.phase, producer.chunk.index, reader.first, static_cast<uint32_t>(v));
      if (reader.first != producer.chunk.index) crossings.emplace(crossing, reader.second);
    }
  }
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = l.op(i);
    if (!ir::is_communication(op.kind)) continue;
    Exchange exchange{op.kind, false, op.chunk, op.phase, l.root(op.operands[0]), op.results[0], {}, {}};
    exchange.in_place = op.kind == OpKind::kAllReduce && l.usage.home[exchange.from.index] == Home::kOwnSlot &&
                        l.usage.num_reads[exchange.from.index] == 1;
    if (op.operands.size() > 2) {
      exchange.send_counts = l.root(op.operands[1]);
      exchange.receive_counts = l.root(op.operands[2]);
    }
    result.exchanges.push_back(exchange);
  }
  for (const auto& [crossing, read_in] : crossings) {
    const auto& [phase, from, to, value] = crossing;
    result.crossings.push_back({ChunkId(from), ChunkId(to), phase, ValueId(value), read_in});
  }
  result.layouts = std::move(l.layouts);
  return result;
}

// Takes the programs of the chosen chunks from `other`, the same graph with their forwards repeated, as those of
// `lowered.repeating`. What chunks exchange must be equal in both.
void add_repeating(LoweredGraph& lowered, LoweredGraph other, const std::vector<bool>& chunks) {
  const auto same = [](const Crossing& a, const Crossing& b) {
    return a.from == b.from && a.to == b.to && a.phase == b.phase && a.value == b.value;
  };
  PIPER_CHECK(std::equal(lowered.crossings.begin(), lowered.crossings.end(), other.crossings.begin(),
                         other.crossings.end(), same),
              "a repeated forward changes what chunks exchange");
  for (size_t i = 0; i < lowered.crossings.size(); ++i) {  // a repeated forward may read in an earlier phase
    Crossing& crossing = lowered.crossings[i];
    crossing.read_in = std::min(crossing.read_in, other.crossings[i].read_in);
    const Layout &a = lowered.layouts[crossing.value.index], &b = other.layouts[crossing.value.index];
    PIPER_CHECK(a.root == b.root && a.strides == b.strides, "a repeated forward changes how a value is laid out");
  }
  PIPER_CHECK(lowered.exchanges.size() == other.exchanges.size(), "a repeated forward changes what ranks exchange");
  for (size_t i = 0; i < lowered.exchanges.size(); ++i)
    lowered.exchanges[i].in_place = lowered.exchanges[i].in_place && other.exchanges[i].in_place;
  for (LoweredProgram& program : other.programs)
    if (chunks[program.chunk.index]) lowered.repeating.push_back(std::move(program));
}

}  // namespace

void lower_programs(ir::Module& module) {
  const size_t num_chunks = module.chunks().size();
  std::vector<bool> sometimes;
  for (const ir::ChunkProperties& row : module.distribution.chunks) sometimes.push_back(row.recomputed_sometimes());
  const LoweredGraph* like = nullptr;
  for (ir::ModelVariant& variant : module.variants) {
    variant.lowered = lower_graph(variant.chunked.graph, num_chunks, like);
    if (variant.repeating) add_repeating(variant.lowered, lower_graph(*variant.repeating, num_chunks, like), sometimes);
    like = &module.variants[0].lowered;
  }
  module.shapes = ir::chunk_shapes(module.variants[0].lowered, num_chunks);
}

}  // namespace piper::emit
