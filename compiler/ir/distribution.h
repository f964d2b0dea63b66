// How chunks are spread over devices: which group runs each on which microbatch, on which streams, how its gradients
// are reduced, what is recomputed. Directives are resolved to it, one row of typed properties per chunk; the rows are
// carried along where chunks are cut or joined (Module::refine_chunks, merge_chunks). Passes read it, the emitter
// projects by it. A distribution names no nodes: the work itself is in the Dag.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/ids.h"
#include "schemas/plan/plan.h"

namespace piper::ir {

using GroupId = Id<struct GroupTag>;  // Distribution::groups
using TeamsId = Id<struct TeamsTag>;  // Distribution::teams

// The devices that run a chunk on a microbatch. A replica is `places` ranks that share its samples: each works on the
// same piece, at its own place. The list goes replica by replica: position = replica * places + place.
struct DeviceGroup {
  std::vector<int32_t> ranks;
  int32_t places = 1;
  int64_t replicas() const { return static_cast<int64_t>(ranks.size()) / places; }
  // [place] the ranks of one place, in replica order: together they have every sample once.
  std::vector<std::vector<int32_t>> columns() const;
  // [replica] the ranks of one replica, by place.
  std::vector<std::vector<int32_t>> rows() const;
  // "4 devices", "2 replicas of 2 devices".
  std::string size_text() const;
  friend bool operator==(const DeviceGroup&, const DeviceGroup&) = default;
};

// A bound on the rows that an expert takes of a rank's rows of one microbatch: `factor` times the mean number of rows
// of an expert, rounded up. A row beyond the bound counts as one whose expert gives zeros; such rows are counted
// (Graph::dropped), or an error (`strict`).
struct RowBound {
  double factor = 1;
  bool strict = false;
  diag::Span span;  // of the bound in the file
  // On one device that computes what so many places do: each bounds the rows of its own part (make_reference.cc).
  int64_t places = 1;
  // The bound where there are `rows` rows for `experts` experts; never more than `rows`. A product within 1e-9 of an
  // integer is that integer.
  int64_t rows_of_expert(int64_t rows, int64_t experts) const;
  friend bool operator==(const RowBound&, const RowBound&) = default;
};

// Disjoint lists of ranks that do the same side by side, each for itself; positions are the order of a sum.
using Teams = std::vector<std::vector<int32_t>>;

// The groups of an expert shard, which partition the data group of its chunks.
struct ExpertGroups {
  std::vector<std::vector<int32_t>> groups;  // equal sizes; a position in a group is a position of its all_to_all
  uint32_t stream = 0;                       // of the exchanges
  ProvId prov;
  diag::Span span;                // of the directive
  std::optional<RowBound> bound;  // for experts in the grouped form alone
  friend bool operator==(const ExpertGroups&, const ExpertGroups&) = default;
};

// Groups of ranks that share samples and cut tensors: the position in its group is a rank's place, place p has part p.
struct Cut {
  Teams groups;         // of equal sizes; each is one replica of every device group that it meets
  uint32_t stream = 0;  // of its collectives
  ProvId prov;
  diag::Span span;  // of the directive
  int64_t places() const { return static_cast<int64_t>(groups.front().size()); }
  friend bool operator==(const Cut&, const Cut&) = default;
};

// What is cut in a chunk: weights of products by their output features, tables and logits by the rows of a vocabulary,
// or the sequence of what lies between products that are cut.
enum class CutDim : uint8_t { kColumn, kVocabulary, kSequence };

// What a directive cuts in a chunk: the weights that a glob matches, or the sequence.
struct CutSeed {
  int32_t cut = -1;  // index into Distribution::cuts
  CutDim dim = CutDim::kColumn;
  std::vector<std::string> weights;  // globs over names of parameters and of modules; empty: all that can be cut
  bool keeps_wholes = false;         // of a sequence: what is gathered is kept for the backward, not gathered again
  ProvId prov;
  diag::Span span;  // of the directive
  friend bool operator==(const CutSeed&, const CutSeed&) = default;
};

// For what each member of a team keeps only its part, instead of the whole; each level includes the ones before.
enum class Sharded : uint8_t { kNothing, kOptimizer, kGradients, kParameters };
// How long gathered parameters live: one compute, a microbatch's forward to the end of its backward, the step.
enum class Residency : uint8_t { kUse, kMicrobatch, kStep };

// How the gradients of a chunk's parameters are reduced and updated.
struct Replication {
  int64_t bucket_bytes = -1;               // -1: no bound; 0: a bucket per parameter
  uint32_t stream = 0, gather_stream = 0;  // of reductions, of gathers
  Sharded sharded = Sharded::kNothing;
  // Groups of devices that keep the parts of what is sharded, of equal sizes; sums of parts are added up over them.
  // Empty: all devices together keep one set of parts.
  Teams parts_over;
  // Weights of one axis (norms, biases) of fewer bytes, which would be gathered in a bucket of their own, stay whole:
  // their messages cost more than their bytes.
  int64_t whole_below = 0;
  Residency residency = Residency::kUse;
  int32_t prefetch = 1;  // computes ahead of the reader
  ProvId prov;           // invalid: nothing asks for a reduction
  friend bool operator==(const Replication&, const Replication&) = default;
};

// Which operators of a forward a backward repeats, of those whose results it needs. The others keep theirs.
enum class RepeatedOps : uint8_t {
  kAll,
  kAllButProducts,  // what computes in the type of products keeps its results: products, convolutions, attention
  kAttention,
};
bool is_among(OpKind kind, RepeatedOps ops);
struct Repeats {
  RepeatedOps ops = RepeatedOps::kAll;
  std::vector<std::string> modules;  // globs; empty: all
  double layers = 1;                 // share of the region's layers, the first ones; less than 1: of these alone
  bool keeps_exchanged = false;      // what all_to_alls bring is kept, and not sent again
  friend bool operator==(const Repeats&, const Repeats&) = default;
};

// What directives say of one chunk.
struct ChunkProperties {
  std::vector<GroupId> groups;      // [microbatch] the devices that run it
  std::vector<diag::Span> devices;  // [microbatch] where the strategy lists them; line 0 where it does not
  uint32_t message_stream = 0;      // of the messages that the chunk sends
  ProvId placed_by;
  Replication replication;
  int64_t segment_bytes = -1;    // bytes of parameters that a segment of it may first use; -1: it stays whole
  int32_t shard = -1;            // that parts its experts: index into Distribution::expert_groups; -1: none
  std::vector<CutSeed> seeds;    // what is cut in it
  bool backward_split = false;   // its backward is an input part and a weight part
  std::vector<bool> recomputed;  // [microbatch] its backward repeats the forward
  Repeats repeats;
  std::map<std::pair<Phase, int32_t>, uint32_t> compute_streams;  // (phase, microbatch) -> stream, where not 0
  std::vector<ProvId> notes;  // comments of the strategy, ascending; they change nothing but provenance

  bool recomputed_always() const;     // on every microbatch
  bool recomputed_sometimes() const;  // on some microbatches, not on others
  // Whether the strategy treats two chunks alike, so that they can be joined. Their shard, seeds, segment_bytes and
  // notes may differ.
  bool alike(const ChunkProperties& other) const;
};

struct Distribution {
  int32_t world_size = 1;
  std::vector<DeviceGroup> groups;
  std::vector<Teams> teams;                        // of collectives
  std::vector<std::string> streams = {"compute"};  // [0]: of every compute that no directive puts elsewhere
  std::vector<plan::Stream> resources;             // of streams by their names; others have none of their own
  std::vector<ChunkProperties> chunks;             // [chunk]
  std::vector<ExpertGroups> expert_groups;         // Chunk::shard and Parameter::shard index it
  std::vector<Cut> cuts;                           // ParameterCut::cut indexes it

  GroupId group(ChunkId chunk, int32_t microbatch) const { return chunks[chunk.index].groups[microbatch]; }
  const std::vector<int32_t>& ranks(GroupId group) const { return groups[group.index].ranks; }
  int32_t places(GroupId group) const { return groups[group.index].places; }
  // How many pieces of samples the group cuts a microbatch into, and which of them the rank at a position has.
  int64_t replicas(GroupId group) const { return groups[group.index].replicas(); }
  int64_t replica_of(GroupId group, int64_t position) const { return position / places(group); }
  int64_t place_of(GroupId group, int64_t position) const { return position % places(group); }
  int32_t rank_at(GroupId group, int64_t replica, int64_t place) const {
    return ranks(group)[static_cast<size_t>(replica * places(group) + place)];
  }
  // The place of a member.
  int64_t place_of_rank(GroupId group, int32_t rank) const;
  Teams columns(GroupId group) const { return groups[group.index].columns(); }
  // [replica] its ranks, by place.
  Teams rows(GroupId group) const { return groups[group.index].rows(); }
  // The cut of which the replicas of a group are groups, -1 where there is none; the cut that has a rank.
  int32_t cut_of(GroupId group) const { return cut_of_rank(ranks(group)[0]); }
  int32_t cut_of_rank(int32_t rank) const;
  // The ranks that share the samples of one in a cut, by place.
  const std::vector<int32_t>& sharing_with(int32_t rank) const;
  // The members of all groups, each once, in order of first use; the groups have equally many places.
  DeviceGroup joined(const std::vector<GroupId>& of) const;
  bool backward_split(ChunkId chunk) const { return chunks[chunk.index].backward_split; }
  // The stream that a compute runs on: what a `stream` directive says, else 0.
  uint32_t compute_stream(ChunkId chunk, Phase phase, int32_t microbatch) const;
  bool has_several_compute_streams() const;
  GroupId intern_group(const std::vector<int32_t>& ranks) { return intern_group(DeviceGroup{ranks}); }
  GroupId intern_group(const DeviceGroup& group);
  TeamsId intern_teams(const Teams& members);
  uint32_t intern_stream(const std::string& name);
  // The device groups that a chunk runs on, each once, by id.
  std::vector<GroupId> groups_of(ChunkId chunk) const;
  // The round of a microbatch: how many before it run on the same group. Microbatches of one round, one of each group,
  // can be communicated at once.
  int32_t round_of(ChunkId chunk, int32_t microbatch) const;
  bool has_member(GroupId group, int32_t rank) const;
  // Whether the rank is the first of its team.
  bool is_front(TeamsId teams, int32_t rank) const;
  // Whether the chunk has two programs for a phase, and this microbatch runs the second.
  bool repeats(ChunkId chunk, int32_t microbatch) const {
    const ChunkProperties& row = chunks[chunk.index];
    return row.recomputed[microbatch] && row.recomputed_sometimes();
  }
  // The cut at several places of which the members of each group of a shard are; -1: those of a group are at one.
  int32_t cut_of_experts(int32_t shard) const;
  // The expert group of a shard that holds the rank.
  const std::vector<int32_t>& expert_group_of(int32_t shard, int32_t rank) const;

  // Rows for chunks that were cut: [new chunk] -> the chunk it was cut from, whose properties it has.
  void refine(const std::vector<ChunkId>& from);
  // Rows for chunks that were joined: [chunk] -> the joined one, ids ascending; it has the properties of its first, and
  // the notes of all.
  void merge(const std::vector<ChunkId>& into);
};

}  // namespace piper::ir
