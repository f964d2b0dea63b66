// The text form of a distribution. Properties that a chunk's row has by default are left out: no place of its devices
// and no recomputation for each microbatch of the step, and what ChunkProperties says.
#include <limits>
#include <ostream>

#include "compiler/ir/attrs_text.h"
#include "compiler/ir/module_sections.h"

namespace piper::ir {
namespace {

constexpr std::string_view kShardedWords[] = {"nothing", "optimizer", "gradients", "parameters"};

void print_replication(const Replication& r, std::ostream& out) {
  if (r == Replication()) return;
  out << "    replicate bucket " << r.bucket_bytes << " stream " << r.stream << " gather " << r.gather_stream
      << " sharded " << kShardedWords[static_cast<size_t>(r.sharded)] << " residency "
      << kResidencyWords[static_cast<size_t>(r.residency)] << " prefetch " << r.prefetch;
  if (!r.parts_over.empty()) out << " parts_over " << rank_lists_text(r.parts_over);
  out << prov_text(r.prov) << "\n";
}

// Microbatches of one phase that count up on one stream stand together.
void print_computes(const ChunkProperties& row, std::ostream& out) {
  if (row.compute_streams.empty()) return;
  out << "    computes [";
  for (auto at = row.compute_streams.begin(); at != row.compute_streams.end();) {
    const auto [phase, microbatch] = at->first;
    int32_t times = 0;
    const auto first = at;
    while (at != row.compute_streams.end() && at->first == std::pair(phase, microbatch + times) &&
           at->second == first->second) {
      ++at;
      ++times;
    }
    out << (first == row.compute_streams.begin() ? "" : ", ") << phase_text(phase) << " " << microbatch;
    if (times > 1) out << " x" << times;
    out << " on " << first->second;
  }
  out << "]\n";
}

void print_row(const ChunkProperties& row, size_t index, size_t num_microbatches, std::ostream& out) {
  out << "  chunk " << index << " {\n    groups " << repeated_text(row.groups, [](GroupId g) { return id_text(g); })
      << "\n";
  if (row.devices != std::vector<diag::Span>(num_microbatches))
    out << "    devices " << repeated_text(row.devices, span_text) << "\n";
  if (row.placed_by.valid()) out << "    placed " << row.placed_by.index << "\n";
  if (row.message_stream != 0) out << "    messages " << row.message_stream << "\n";
  print_replication(row.replication, out);
  if (row.segment_bytes != -1) out << "    segment " << row.segment_bytes << "\n";
  if (row.shard != -1) out << "    shard " << row.shard << "\n";
  if (row.backward_split) out << "    backward_split\n";
  if (row.recomputed != std::vector<bool>(num_microbatches))
    out << "    recomputed " << repeated_text(row.recomputed, [](bool b) { return std::string(b ? "1" : "0"); })
        << "\n";
  print_computes(row, out);
  if (!row.notes.empty()) out << "    notes " << ranges_text(row.notes) << "\n";
  out << "  }\n";
}

class DistributionParser {
 public:
  DistributionParser(ModuleReader& in, Module& module) : in_(in), module_(module), to_(module.distribution) {}

  Status run() {
    to_.streams.clear();
    return in_.block([&] { return entry(); });
  }

 private:
  Status entry() {
    const Token name = in_.token();
    PIPER_RETURN_IF_ERROR(in_.advance());
    if (name.is_word("world")) {
      PIPER_ASSIGN(to_.world_size, in_.int32("a number of ranks"));
      return {};
    }
    if (name.is_word("stream")) {
      PIPER_RETURN_IF_ERROR(in_.numbered(to_.streams.size(), "streams"));
      PIPER_ASSIGN(std::string stream, in_.string());
      to_.streams.push_back(std::move(stream));
      return {};
    }
    if (name.is_word("group")) {
      PIPER_RETURN_IF_ERROR(in_.numbered(to_.groups.size(), "groups"));
      PIPER_ASSIGN(std::vector<int32_t> ranks, in_.ranges<int32_t>("a rank"));
      to_.groups.push_back({std::move(ranks)});
      return {};
    }
    if (name.is_word("teams")) {
      PIPER_RETURN_IF_ERROR(in_.numbered(to_.teams.size(), "teams"));
      PIPER_ASSIGN(Teams teams, in_.rank_lists());
      to_.teams.push_back(std::move(teams));
      return {};
    }
    if (name.is_word("expert_groups")) return expert_groups();
    if (name.is_word("chunk")) {
      PIPER_RETURN_IF_ERROR(in_.numbered(to_.chunks.size(), "chunks"));
      return chunk();
    }
    return in_.fail(name, "expected world, stream, group, teams, expert_groups, chunk or '}'");
  }

  Status expert_groups() {
    PIPER_RETURN_IF_ERROR(in_.numbered(to_.expert_groups.size(), "expert groups"));
    ExpertGroups groups;
    PIPER_ASSIGN(groups.groups, in_.rank_lists());
    PIPER_RETURN_IF_ERROR(in_.field("stream", groups.stream, "a stream"));
    PIPER_ASSIGN(groups.prov, in_.by());
    PIPER_ASSIGN(groups.span, in_.span());
    PIPER_ASSIGN(const bool bounded, in_.takes("bound"));
    if (bounded) {
      RowBound bound;
      PIPER_ASSIGN(bound.factor, in_.number());
      PIPER_ASSIGN(bound.strict, in_.takes("strict"));
      PIPER_ASSIGN(bound.span, in_.span());
      groups.bound = bound;
    }
    to_.expert_groups.push_back(std::move(groups));
    return {};
  }

  Status chunk() {
    const auto microbatches = static_cast<size_t>(module_.step.num_microbatches);
    PIPER_RETURN_IF_ERROR(in_.expand(in_.token(), 2 * microbatches));
    ChunkProperties row;
    row.devices.resize(microbatches);
    row.recomputed.resize(microbatches);
    PIPER_RETURN_IF_ERROR(in_.block([&] { return property(row); }));
    to_.chunks.push_back(std::move(row));
    return {};
  }

  Status property(ChunkProperties& row) {
    const Token name = in_.token();
    PIPER_RETURN_IF_ERROR(in_.advance());
    if (name.is_word("groups")) {
      PIPER_ASSIGN(row.groups, in_.repeated<GroupId>([&] { return in_.id_or_none<GroupId>("a group"); }));
    } else if (name.is_word("devices")) {
      PIPER_ASSIGN(row.devices, in_.repeated<diag::Span>([&] { return in_.span(); }));
    } else if (name.is_word("placed")) {
      PIPER_ASSIGN(row.placed_by, in_.id<ProvId>("an entry of the provenance"));
    } else if (name.is_word("messages")) {
      PIPER_ASSIGN(row.message_stream, in_.uint32("a stream"));
    } else if (name.is_word("replicate")) {
      return replication(row.replication);
    } else if (name.is_word("segment")) {
      PIPER_ASSIGN(row.segment_bytes, in_.integer());
    } else if (name.is_word("shard")) {
      PIPER_ASSIGN(row.shard, in_.int32("a shard"));
    } else if (name.is_word("backward_split")) {
      row.backward_split = true;
    } else if (name.is_word("recomputed")) {
      PIPER_ASSIGN(row.recomputed, in_.repeated<bool>([&]() -> Result<bool> {
        PIPER_ASSIGN(const int64_t flag, in_.integer_in(0, 1, "a flag"));
        return flag == 1;
      }));
    } else if (name.is_word("computes")) {
      return in_.list([&] { return compute(row); });
    } else if (name.is_word("notes")) {
      PIPER_ASSIGN(row.notes, in_.ranges<ProvId>("an entry of the provenance"));
    } else {
      return in_.fail(
          name,
          "expected groups, devices, placed, messages, replicate, segment, shard, backward_split, recomputed, "
          "computes, notes or '}'");
    }
    return {};
  }

  Status replication(Replication& r) {
    PIPER_RETURN_IF_ERROR(in_.field("bucket", r.bucket_bytes));
    PIPER_RETURN_IF_ERROR(in_.field("stream", r.stream, "a stream"));
    PIPER_RETURN_IF_ERROR(in_.field("gather", r.gather_stream, "a stream"));
    PIPER_RETURN_IF_ERROR(in_.field("sharded", r.sharded, kShardedWords));
    PIPER_RETURN_IF_ERROR(in_.field("residency", r.residency, kResidencyWords));
    PIPER_RETURN_IF_ERROR(in_.field("prefetch", r.prefetch, "a number of computes"));
    PIPER_ASSIGN(const bool divided, in_.takes("parts_over"));
    if (divided) {
      PIPER_ASSIGN(r.parts_over, in_.rank_lists());
    }
    PIPER_ASSIGN(r.prov, in_.by());
    return {};
  }

  Status compute(ChunkProperties& row) {
    PIPER_ASSIGN(const Phase phase, in_.phase());
    const Token at = in_.token();
    PIPER_ASSIGN(const int32_t first, in_.int32("a microbatch"));
    PIPER_ASSIGN(const size_t times, in_.repeats());
    if (static_cast<int64_t>(times) > std::numeric_limits<int32_t>::max() - first)
      return in_.fail(at, "no such microbatch");
    PIPER_RETURN_IF_ERROR(in_.want_word("on"));
    PIPER_ASSIGN(const uint32_t stream, in_.uint32("a stream"));
    for (size_t i = 0; i < times; ++i)
      if (!row.compute_streams.emplace(std::pair(phase, first + static_cast<int32_t>(i)), stream).second)
        return in_.fail(at, "the compute stands twice");
    return {};
  }

  ModuleReader& in_;
  const Module& module_;
  Distribution& to_;
};

}  // namespace

void print_distribution_section(const Module& module, std::ostream& out) {
  const Distribution& d = module.distribution;
  if (d.chunks.empty() && d.groups.empty() && d.expert_groups.empty() && d.world_size == Distribution().world_size &&
      d.streams == Distribution().streams)
    return;
  out << "distribution {\n  world " << d.world_size << "\n";
  for (size_t s = 0; s < d.streams.size(); ++s) out << "  stream " << s << " " << string_literal(d.streams[s]) << "\n";
  for (size_t g = 0; g < d.groups.size(); ++g) out << "  group " << g << " " << ranges_text(d.groups[g].ranks) << "\n";
  for (size_t t = 0; t < d.teams.size(); ++t) out << "  teams " << t << " " << rank_lists_text(d.teams[t]) << "\n";
  for (size_t e = 0; e < d.expert_groups.size(); ++e) {
    const ExpertGroups& groups = d.expert_groups[e];
    out << "  expert_groups " << e << " " << rank_lists_text(groups.groups) << " stream " << groups.stream
        << prov_text(groups.prov) << " " << span_text(groups.span);
    if (groups.bound)
      out << " bound " << number_text(groups.bound->factor) << (groups.bound->strict ? " strict " : " ")
          << span_text(groups.bound->span);
    out << "\n";
  }
  for (size_t c = 0; c < d.chunks.size(); ++c)
    print_row(d.chunks[c], c, static_cast<size_t>(module.step.num_microbatches), out);
  out << "}\n";
}

Status parse_distribution_section(ModuleReader& in, Module& module) { return DistributionParser(in, module).run(); }

}  // namespace piper::ir
