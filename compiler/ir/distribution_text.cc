// The text form of a distribution. Properties that a chunk's row has by default are left out: no place of its devices
// and no recomputation for each microbatch of the step, and what ChunkProperties says.
#include <limits>
#include <ostream>

#include "compiler/ir/section_fields.h"

namespace piper::ir {

inline Words words_of(Sharded) {
  static constexpr std::string_view kWords[] = {"nothing", "optimizer", "gradients", "parameters"};
  return kWords;
}

inline Words words_of(CutDim) {
  static constexpr std::string_view kWords[] = {"column", "vocabulary", "sequence"};
  return kWords;
}

void fields(auto& v, Of<plan::Stream> auto& stream) {
  v("", stream.name);
  v.optional("priority", stream.priority, plan::Priority::kNormal);
  v.optional("max_ctas", stream.max_ctas, 0, "a number of thread blocks");
}
void fields(auto& v, Of<DeviceGroup> auto& group) {
  v("", group.ranks, "a rank");
  v.optional("places", group.places, 1, "a number of ranks that share samples");
}
void fields(auto& v, Of<RowBound> auto& bound) {
  v("", bound.factor);
  v.flag("strict", bound.strict);
  v("", bound.span);
}
void fields(auto& v, Of<ExpertGroups> auto& groups) {
  v("", groups.groups);
  v("stream", groups.stream, "a stream");
  v.optional("by", groups.prov, {});
  v("", groups.span);
  v("bound", groups.bound);
}
void fields(auto& v, Of<Cut> auto& cut) {
  v("", cut.groups);
  v("stream", cut.stream, "a stream");
  v.optional("by", cut.prov, {});
  v("", cut.span);
}
void fields(auto& v, Of<CutSeed> auto& seed) {
  v("", seed.cut, "a cut");
  v.optional("dim", seed.dim, CutDim::kColumn);
  v.unless_empty("weights", seed.weights);
  v.flag("keeps_wholes", seed.keeps_wholes);
  v.optional("by", seed.prov, {});
  v("", seed.span);
}
void fields(auto& v, Of<Replication> auto& r) {
  v("bucket", r.bucket_bytes);
  v("stream", r.stream, "a stream");
  v("gather", r.gather_stream, "a stream");
  v("sharded", r.sharded);
  v("residency", r.residency);
  v("prefetch", r.prefetch, "a number of computes");
  v.unless_empty("parts_over", r.parts_over);
  v.optional("whole_below", r.whole_below, 0);
  v.optional("by", r.prov, {});
}
void fields(auto& v, Of<Repeats> auto& r) {
  v("", r.ops);
  v("layers", r.layers);
  v.unless_empty("modules", r.modules);
  v.flag("keeps_exchanged", r.keeps_exchanged);
}
// "[F 0 x3 on 1, B 1 on 2]": microbatches of one phase that count up on one stream are together.
template <class Streams>
struct Computes {
  Streams& streams;

  bool empty() const { return streams.empty(); }
  std::string text() const {
    std::string all;
    for (auto at = streams.begin(); at != streams.end();) {
      const auto [phase, microbatch] = at->first;
      int32_t times = 0;
      const auto first = at;
      while (at != streams.end() && at->first == std::pair(phase, microbatch + times) && at->second == first->second) {
        ++at;
        ++times;
      }
      all += (all.empty() ? "" : ", ") + std::string(phase_text(phase)) + " " + std::to_string(microbatch) +
             (times > 1 ? " x" + std::to_string(times) : "") + " on " + std::to_string(first->second);
    }
    return "[" + all + "]";
  }
  Status read(ModuleReader& in) {
    return in.list([&]() -> Status {
      PIPER_ASSIGN(const Phase phase, in.phase());
      const Token at = in.token();
      PIPER_ASSIGN(const int32_t first, in.int32("a microbatch"));
      PIPER_ASSIGN(const size_t times, in.repeats());
      if (static_cast<int64_t>(times) > std::numeric_limits<int32_t>::max() - first)
        return in.fail(at, "no such microbatch");
      PIPER_RETURN_IF_ERROR(in.want_word("on"));
      PIPER_ASSIGN(const uint32_t stream, in.uint32("a stream"));
      for (size_t i = 0; i < times; ++i)
        if (!streams.emplace(std::pair(phase, first + static_cast<int32_t>(i)), stream).second)
          return in.fail(at, "the compute appears twice");
      return {};
    });
  }
};
template <class Streams>
Computes(Streams&) -> Computes<Streams>;

// What a row is where its text says nothing.
static ChunkProperties fresh_row(const Module& module) {
  ChunkProperties row;
  row.devices.resize(static_cast<size_t>(module.step.num_microbatches));
  row.recomputed.resize(row.devices.size());
  return row;
}
template <class V>
void fields(V& v, Of<ChunkProperties> auto& row) {
  const ChunkProperties fresh = V::kReads ? ChunkProperties() : fresh_row(v.module());  // readers ask for every line
  v("groups", Repeated{row.groups});
  v.optional("devices", Repeated{row.devices}, Repeated{fresh.devices});
  v.optional("placed", row.placed_by, ProvId());
  v.optional("messages", row.message_stream, 0, "a stream");
  v.optional("replicate", row.replication, Replication());
  v.optional("segment", row.segment_bytes, -1);
  v.optional("shard", row.shard, -1, "a shard");
  v.unless_empty("cuts", row.seeds);
  v.flag("backward_split", row.backward_split);
  v.optional("recomputed", Repeated{row.recomputed}, Repeated{fresh.recomputed});
  v.optional("repeats", row.repeats, Repeats());
  v.unless_empty("computes", Computes{row.compute_streams});
  v.unless_empty("notes", row.notes);
}
void fields(auto& v, Of<Distribution> auto& d) {
  v("world", d.world_size, "a number of ranks");
  v.table("stream", d.streams, "streams");
  v.table("resources", d.resources, "resources of streams");
  v.table("group", d.groups, "groups");
  v.table("teams", d.teams, "teams");
  v.table("expert_groups", d.expert_groups, "expert groups");
  v.table("cut", d.cuts, "cuts");
  const auto fresh = [&v] { return fresh_row(v.module()); };
  v.blocks("chunk", d.chunks, "chunks", fresh, 2 * static_cast<size_t>(v.module().step.num_microbatches));
}

void print_distribution_section(const Module& module, std::ostream& out) {
  const Distribution& d = module.distribution;
  if (d.chunks.empty() && d.groups.empty() && d.resources.empty() && d.expert_groups.empty() && d.cuts.empty() &&
      d.world_size == Distribution().world_size && d.streams == Distribution().streams)
    return;
  BlockWriter(module, out, "").block("distribution", d);
}

Status parse_distribution_section(ModuleReader& in, Module& module) {
  module.distribution.streams.clear();
  return BlockReader::block(module, in, module.distribution);
}

}  // namespace piper::ir
