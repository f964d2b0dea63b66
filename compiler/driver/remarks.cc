#include "compiler/driver/remarks.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/passes/cut_heads.h"
#include "schemas/plan/provenance_text.h"

namespace piper::driver {

void note_running_statistics(const ir::Module& module, diag::Diagnostics& diags) {
  const ir::ModelVariant& reference = module.variants[0];
  const ir::Graph& graph = reference.chunked.graph;
  std::set<uint32_t> apart;
  std::set<int32_t> devices;
  ir::ChunkId first;
  for (const ir::LoweredProgram& program : reference.lowered.programs) {
    const auto keeps = [&](size_t slot) {
      return program.holds[slot].kind == ir::SlotHolds::Kind::kBuffer && program.program.slots[slot].writes;
    };
    bool any = false;
    for (size_t slot = 0; slot < program.holds.size(); ++slot) any = any || keeps(slot);
    if (!any) continue;
    std::set<int32_t> here;
    for (ir::GroupId group : module.distribution.groups_of(program.chunk)) {
      const ir::Teams columns = module.distribution.columns(group);  // their ranks have other samples each
      here.insert(columns[0].begin(), columns[0].end());
    }
    if (here.size() < 2) continue;
    for (size_t slot = 0; slot < program.holds.size(); ++slot) {
      if (!keeps(slot)) continue;
      apart.insert(program.holds[slot].index);
      devices.insert(here.begin(), here.end());
      if (!first.valid()) first = program.chunk;
    }
  }
  if (apart.empty()) return;
  auto warning = diags.warning("P0334", module.distribution.chunks[first.index].devices[0]);
  warning << "running statistics '" << graph.buffers()[*apart.begin()].names[0] << "'"
          << (apart.size() > 1 ? " and " + std::to_string(apart.size() - 1) + " more" : std::string())
          << " are kept by each of " << devices.size() << " devices from its own samples; the first device's are saved";
}

void note_counted_rows(const ir::Module& module, plan::DeviceKind device, diag::Diagnostics& diags) {
  if (device == plan::DeviceKind::kCpu) return;
  std::set<int32_t> counted;  // shards
  for (const ir::Exchange& exchange : module.variants[0].lowered.exchanges) {
    const int32_t shard = module.distribution.chunks[exchange.chunk.index].shard;
    if (exchange.send_counts.valid() && shard >= 0) counted.insert(shard);
  }
  for (const int32_t shard : counted) {
    const ir::ExpertGroups& experts = module.distribution.expert_groups[static_cast<size_t>(shard)];
    if (!experts.bound)
      diags.remark(
          "the host reads how many rows travel to experts and back: each of these exchanges ends a segment of "
          "the step; with 'capacity' whole parts travel and no host waits",
          experts.span);
  }
}

void note_sums(const ir::Module& module, diag::Diagnostics& diags) {
  std::map<int64_t, size_t> uses_over;  // devices that sum -> gradients
  for (const ir::Accumulator& a : module.state.accumulators) {
    const ir::Bucket& bucket = module.state.buckets[a.bucket.index];
    const size_t teams = bucket.across.valid() ? module.distribution.teams[bucket.across.index][0].size() : 1;
    ++uses_over[bucket.team_size * static_cast<int64_t>(teams)];
  }
  for (const auto& [devices, uses] : uses_over) {
    if (module.step.num_microbatches * devices == 1) continue;
    std::string cut;
    if (module.step.num_microbatches > 1) cut = std::to_string(module.step.num_microbatches) + " microbatches";
    if (devices > 1) cut += (cut.empty() ? "" : ", then over ") + std::to_string(devices) + " devices";
    diags.remark(std::to_string(uses) + " gradients are added up over " + cut +
                 ": equal to those of one device on the whole batch up to rounding");
  }
  std::vector<std::vector<int32_t>> backwards(module.distribution.chunks.size());  // [chunk] microbatches, in order
  for (const ir::NodeId id : module.dag.order)
    if (const auto* compute = std::get_if<ir::ComputeNode>(&module.dag.nodes[id.index].payload))
      if (compute->phase == ir::Phase::kBackward) backwards[compute->chunk.index].push_back(compute->microbatch);
  for (size_t c = 0; c < backwards.size(); ++c) {
    if (std::is_sorted(backwards[c].begin(), backwards[c].end())) continue;
    std::string sequence;
    for (const int32_t m : backwards[c]) sequence += (sequence.empty() ? "" : ", ") + std::to_string(m);
    diags.remark("gradients of " + module.variants[0].chunked.chunks[c].name + " are added up over the microbatches " +
                 sequence + ", in this sequence");
  }
}

void note_conversions(const ir::Module& module, diag::Diagnostics& diags) {
  struct Like {
    int64_t times = 0, bytes = 0;
    std::set<std::string> texts;
  };
  std::map<std::string, Like> all;  // by what is said of any layer
  std::vector<std::string> order;
  for (const ir::Node& node : module.dag.nodes) {
    const auto* collective = std::get_if<ir::CollectiveNode>(&node.payload);
    const auto* value = collective != nullptr ? std::get_if<ir::ValueOperand>(&collective->what) : nullptr;
    if (value == nullptr || value->at.microbatch != 0 || collective->kind == ir::CollectiveKind::kAllToAll) continue;
    const auto places = static_cast<int64_t>(module.distribution.teams[collective->teams.index][0].size());
    const ir::Op& conversion = module.graph().op(module.graph().value(value->value).producer);
    const std::string text = std::string(ir::op_name(conversion.kind)) + ": " + module.provenance.describe(node.prov);
    const auto [like, first] = all.emplace(plan::of_any_layer(text), Like());
    if (first) order.push_back(like->first);
    const int64_t bytes = module.graph().type(value->value).bytes();
    ++like->second.times;
    like->second.bytes += collective->kind == ir::CollectiveKind::kReduceScatter ? places * bytes : bytes;
    like->second.texts.insert(text);
  }
  for (const std::string& key : order) {
    const Like& like = all.at(key);
    diags.remark(std::to_string(like.times) + " times a microbatch, " + std::to_string(like.bytes) +
                 " bytes together, " + (like.texts.size() > 1 ? key : *like.texts.begin()));
  }
}

void note_masks(const ir::Module& module, diag::Diagnostics& diags) {
  constexpr int64_t kWorthSaying = int64_t{1} << 20;  // bytes
  const ir::Graph& graph = module.graph();
  std::map<uint32_t, std::pair<const ir::Op*, size_t>> readers;  // by mask: the first, and how many
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    if (op.kind != ir::OpKind::kSdpa || op.operands.size() < 4 || !op.operands[3].valid()) continue;
    if (graph.type(op.operands[3]).bytes() < kWorthSaying) continue;
    auto& [first, count] = readers[op.operands[3].index];
    if (count++ == 0) first = &op;
  }
  for (const auto& [mask, readers_of_it] : readers) {
    const ir::Value& value = graph.value(ir::ValueId(mask));
    const auto& [first, count] = readers_of_it;
    diags.remark("the mask '" + value.name + "', " + ir::to_string(value.type) + " of " +
                 std::to_string(value.type.bytes() >> 20) +
                 " MiB for each microbatch, stays in the plan: " + graph.provenance().describe(first->prov) +
                 (count > 1 ? " and " + std::to_string(count - 1) + " more" : "") + " read it");
  }
}

void note_heads(const ir::Module& module, diag::Diagnostics& diags) {
  const auto mebibytes = [](int64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; };
  for (const passes::Head& head : passes::find_heads(module)) {
    const std::string of = module.graph().provenance().describe(head.prov);
    if (head.blocks > 0)
      diags.remark("the logits of " + of + ", " + mebibytes(head.logits) + " per microbatch as f32, are made in " +
                   std::to_string(head.blocks) + " blocks of rows, each in " + mebibytes(head.work) +
                   ", and made again for each of their gradients");
    else if (!head.why_not.empty() && !module.head.off &&
             (module.head.blocks > 0 || head.logits > passes::kWorthCutting))
      diags.remark("the logits of " + of + ", " + mebibytes(head.logits) +
                   " per microbatch as f32, are not made in blocks: " + head.why_not);
  }
}

void note_whole_parameters(const ir::Module& module, diag::Diagnostics& diags) {
  int64_t small = 0, bytes = 0;
  for (const ir::Accumulator& a : module.state.accumulators) {
    const ir::Bucket& bucket = module.state.buckets[a.bucket.index];
    const ir::Replication& replication = module.distribution.chunks[a.chunk.index].replication;
    if (a.use > 0 || replication.sharded == ir::Sharded::kNothing || bucket.team_size < 2) continue;
    const ir::Parameter& parameter = module.graph().parameters()[a.parameter];
    if (bucket.moments == ir::Kept::kWhole) {
      diags.remark("'" + parameter.names[0] +
                   "' is kept whole: its uses are not sharded alike over groups of one size");
    } else if (replication.sharded == ir::Sharded::kParameters && bucket.parameters == ir::Kept::kWhole) {
      ++small;
      bytes += a.bytes;
    }
  }
  if (small > 0)
    diags.remark(std::to_string(small) + " norms and biases, " + std::to_string((bytes + 1023) / 1024) +
                 " KiB together, stay whole: each is smaller than whole_below and in no bucket with larger weights");
}

void note_padding(const ir::Module& module, diag::Diagnostics& diags) {
  int64_t padded = 0, padding = 0;
  for (const ir::Bucket& bucket : module.state.buckets) {
    if (!bucket.matrices || bucket.moments == ir::Kept::kWhole) continue;
    int64_t held = 0;
    for (ir::AccumulatorId use : bucket.accumulators) held += module.state.accumulators[use.index].bytes;
    if (2 * (bucket.bytes - held) <= held) continue;
    ++padded;
    padding += bucket.bytes - held;
  }
  if (padded == 0) return;
  diags.remark(
      std::to_string(padded) + " bucket(s) of whole matrices have " + std::to_string(padding) +
      " bytes of padding, which travel with them: with a larger bucket_size there are more matrices to divide");
}

}  // namespace piper::driver
