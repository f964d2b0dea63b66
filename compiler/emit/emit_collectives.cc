// Collectives: sums of gradients, counts, losses and norms; gathers of parameters.
#include <algorithm>

#include "compiler/emit/rank_emitter.h"
#include "compiler/emit/step_programs.h"

namespace piper::emit {

using ir::Phase;
using plan::BufferClass;
using plan::BufferRange;

void RankEmitter::all_reduce(const ir::Node& node, const ir::AllReduceNode& n) {
  const std::vector<int32_t>* members = &module_.distribution.groups[node.group.index].ranks;
  std::vector<BufferRange> data;
  std::vector<int64_t> counts;
  DType dtype = DType::kF32;
  switch (n.what) {
    case ir::Reduced::kBucket: {
      const ir::Bucket& bucket = module_.state.buckets[n.bucket.index];
      data.push_back({gradient_buffer(bucket, -1), 0});
      counts.push_back(bucket.bytes / 4);
      members = team_of(bucket).ranks;
      break;
    }
    case ir::Reduced::kCount: {
      const size_t variant = s_.variant_of_group(module_.distribution.group(n.chunk, 0));
      const LoweredProgram* finish = s_.find(variant, n.chunk, Phase::kCountFinish, 0);
      for (size_t slot = 0; slot < finish->holds.size(); ++slot)
        if (finish->holds[slot].kind == SlotHolds::Kind::kCount) {
          data.push_back(bind(finish->holds[slot], finish->program.slots[slot], variant,
                              {n.chunk, ir::Phase::kCount, 0}, node.group));
          counts.push_back(finish->program.slots[slot].bytes / 4);
        }
      break;
    }
    case ir::Reduced::kLoss:
      data.push_back({buffer("loss", BufferClass::kGradient, 4, DType::kF32, {}), 0});
      counts.push_back(1);
      break;
    case ir::Reduced::kDropped:
      data.push_back({buffer("dropped", BufferClass::kGradient, 8, DType::kI64, {}), 0});
      counts.push_back(1);
      dtype = DType::kI64;
      break;
    case ir::Reduced::kNorm: {
      const auto num = static_cast<int64_t>(module_.state.parameter_uses.size());
      data.push_back({buffer("grad norms", BufferClass::kArena, 4 * num, DType::kF32, {num}), 0});
      counts.push_back(num);
      break;
    }
  }
  for (size_t i = 0; i < data.size(); ++i) {
    const Lane lane = communicator(node.stream, *members);
    const plan::AllReduce reduce{data[i], counts[i], dtype, lane.index, plan::Reduction::kSum};
    add(lane.stream, reduce, {{data[i].buffer, true, true}}, s_.provenance(node.prov));
  }
}

void RankEmitter::reduce_scatter(const ir::Node& node, const ir::ReduceScatterNode& n) {
  const ir::Bucket& bucket = module_.state.buckets[n.bucket.index];
  const Team team = team_of(bucket);
  plan::ReduceScatter reduce;
  reduce.count = team.part_bytes / 4;
  const auto [index, lane] = communicator(node.stream, *team.ranks);
  reduce.communicator = index;
  const int32_t provenance = s_.provenance(node.prov);
  if (bucket.sharded == ir::Sharded::kOptimizer) {
    reduce.data = {gradient_buffer(bucket, -1), 0};
    reduce.out = {reduce.data.buffer, team.position * team.part_bytes};
    add(lane, reduce, {{reduce.data.buffer, true, true}}, provenance);
    return;
  }
  // The microbatch that runs here; a member that has none left adds zeros.
  const std::vector<ir::GroupId>& homes =
      module_.distribution.chunks[module_.state.accumulators[bucket.accumulators[0].index].chunk.index].groups;
  const auto own =
      std::find_if(n.microbatches.begin(), n.microbatches.end(), [&](int32_t m) { return position(homes[m]) >= 0; });
  const int32_t microbatch = own == n.microbatches.end() ? n.microbatches[0] : *own;
  if (own == n.microbatches.end()) clear_gradient(bucket, microbatch, provenance, lane);
  const std::string mark = module_.step.split ? " m" + std::to_string(microbatch) : "";
  reduce.data = {gradient_buffer(bucket, microbatch), 0};
  reduce.out = {buffer("sum " + bucket.name + mark, BufferClass::kArena, team.part_bytes, DType::kF32, {}), 0};
  add(lane, reduce, {{reduce.data.buffer, true, false}, {reduce.out.buffer, false, true}}, provenance);
  // Added up where it arrives, so that no compute waits for the reduction.
  std::vector<BufferRange> arguments;
  arguments = {{gradient_part_buffer(bucket), 0}, reduce.out};
  run(s_.intern_program(add_program(team.part_bytes)), "add " + bucket.name + mark, std::move(arguments), provenance,
      lane);
}

void RankEmitter::all_gather(const ir::Node& node, const ir::AllGatherNode& n) {
  const ir::Bucket& bucket = module_.state.buckets[n.bucket.index];
  const Team team = team_of(bucket);
  plan::AllGather gather;
  gather.bytes = team.part_bytes;
  const auto [index, lane] = communicator(node.stream, *team.ranks);
  gather.communicator = index;
  const int32_t provenance = s_.provenance(node.prov);
  if (n.updated) {
    gather.data = {parameter_buffer(bucket, nullptr), 0};
    gather.part = {gather.data.buffer, team.position * team.part_bytes};
    add(lane, gather, {{gather.data.buffer, true, true}}, provenance);
  } else {
    // A member that runs none of the readers takes part all the same.
    const auto own = std::find_if(n.readers.begin(), n.readers.end(), [&](const ir::ComputeNode& reader) {
      return position(module_.distribution.group(reader.chunk, reader.microbatch)) >= 0;
    });
    gather.data = {parameter_buffer(bucket, own == n.readers.end() ? &n.readers[0] : &*own), 0};
    gather.part = {parameter_part_buffer(bucket), 0};
    add(lane, gather, {{gather.part.buffer, true, false}, {gather.data.buffer, false, true}}, provenance);
  }
}

void RankEmitter::exchange(const ir::Node& node, const ir::ExchangeNode& n) {
  const size_t variant = s_.variant_of_group(node.group);
  const Exchange& exchange = s_.find_exchange(variant, n.at.chunk, n.at.phase);
  const ir::ChunkId chunk = n.at.chunk;
  const std::vector<int32_t>& ranks = module_.distribution.expert_group_of(module_.chunks()[chunk.index].shard, rank_);
  const ir::Graph& graph = *s_.request.variants[variant].graph;
  plan::AllToAll action;
  action.send = value(exchange.from, n.at.microbatch, variant);
  action.recv = value(exchange.to, n.at.microbatch, variant);
  action.bytes = graph.type(exchange.to).bytes() / static_cast<int64_t>(ranks.size());
  const auto [index, lane] = communicator(node.stream, ranks);
  action.communicator = index;
  if (exchange.send_counts.valid()) {
    action.send_counts = value(exchange.send_counts, n.at.microbatch, variant);
    action.recv_counts = value(exchange.receive_counts, n.at.microbatch, variant);
    const ir::TensorType& type = graph.type(exchange.to);  // [members, rows, ..]
    action.row_bytes = action.bytes / type.shape[1];
  }
  add(lane, action, {{action.send.buffer, true, false}, {action.recv.buffer, false, true}}, s_.provenance(node.prov));
  for (const BufferRange& counts : {action.send_counts, action.recv_counts})
    if (counts.buffer >= 0) touch({counts.buffer, true, false});
}

}  // namespace piper::emit
