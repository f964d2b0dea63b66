// Everything that a compilation knows of one training step, from the bound model to the ordered DAG: what passes read
// and change, and what a text form holds (ir/module_text.h). Comments on the parts say which passes write them
// (driver/pipeline.cc has their order); a part that no pass has written yet is empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/chunks.h"
#include "compiler/ir/dag.h"
#include "compiler/ir/distribution.h"
#include "compiler/ir/lowered_graph.h"
#include "compiler/ir/schedule.h"
#include "compiler/ir/state_layout.h"

namespace piper::ir {

// How a step is cut: microbatch m of M on replica r of R is a piece of batch / (M * R) samples.
struct Step {
  int64_t batch = 1;                        // samples, on all devices
  int32_t num_microbatches = 1;             // M
  bool split = false;                       // a `split` or a schedule numbers the microbatches (tag MB)
  bool cut = false;                         // some device group works on a part of the batch at a time
  diag::Span cut_by;                        // what cuts the batch into pieces, for messages; line 0: nothing does
  std::vector<std::string> per_microbatch;  // globs of modules whose statistics are those of a piece
  int64_t local_batch(int64_t replicas) const { return batch / num_microbatches / replicas; }
  friend bool operator==(const Step&, const Step&) = default;
};

// What the step does with gradients.
struct Training {
  double clip_grad_norm = 0;  // the largest norm of all gradients; 0: they are not clipped
  ProvId clip_prov, update_prov;
  // From here on: lay_out_training. The text of a module leaves it out, since it follows from strategy and parameters
  // (piper-opt makes it anew).
  plan::Optimizer optimizer;      // with its groups, at least one
  std::vector<int32_t> group_of;  // [parameter] index into optimizer.groups
  std::vector<plan::Feed> feeds;  // [graph input] what a token stream feeds to it
  plan::LrSchedule lr_schedule;
  plan::RunDefaults run;
  bool laid_out() const { return !optimizer.groups.empty(); }
  bool clips() const { return clip_grad_norm > 0; }
};

// What multiplies the gradient of the loss, so that small gradients of f16 are not lost.
enum class LossScale : uint8_t {
  kNone,     // 1
  kFixed,    // a number
  kDynamic,  // starts at a number, halves where a gradient overflows, doubles after 2000 steps without
};
// In which types the step computes; nothing is set where the strategy says nothing: in the model's own.
struct Precision {
  std::optional<DType> compute;  // of products and attention
  std::optional<DType> master;   // of what is trained, and of gradients, where programs read another type
  std::optional<DType> reduce;   // of gradients as they travel
  LossScale scaling = LossScale::kNone;
  double loss_scale = 1;          // at the start
  std::vector<std::string> keep;  // globs of modules that compute in f32
  ProvId prov;
  bool scales() const { return scaling != LossScale::kNone; }
  bool says_something() const { return compute || master || reduce; }
};

// In how many blocks of rows logits are made that only their cross entropy reads.
struct Head {
  bool off = false;    // they are whole
  int64_t blocks = 0;  // 0: they are made in blocks where they are large
  bool says_something() const { return off || blocks > 0; }
  friend bool operator==(const Head&, const Head&) = default;
};

// The model bound to one number of samples a piece. All variants have the same chunks, values and crossings by id.
struct ModelVariant {
  int64_t local_batch = 1;
  ChunkedGraph chunked;
  // The same graph, op by op, bound to `like_batch` samples (ids of values differ where constants do): where pieces
  // have so few that any axis can pass for the batch, it says which one is. Up to normalise_losses; unset where the
  // graph itself says so.
  std::optional<Graph> like;
  int64_t like_batch = 1;
  // [value of the forward] its total gradient, invalid where none; empty before add_backward.
  std::vector<ValueId> gradients;
  // The graph of microbatches that repeat a forward, where other microbatches of its chunk do not (pass recompute);
  // unset where all microbatches of each chunk do alike. It has every value of chunked.graph under the same id.
  std::optional<Graph> repeating;
  LoweredGraph lowered;  // the programs; empty before lower_programs
};

struct Module {
  bool evaluates = false;              // forwards alone, which train nothing (evaluation/keep_forwards)
  Step step;                           // choose_step; bind_model and resolve_directives say whether the batch is cut
  Training training;                   // choose_step, lay_out_training
  Precision precision;                 // choose_step
  Head head;                           // choose_step
  std::vector<ModelVariant> variants;  // one per distinct local batch, the largest first: [0] is the reference
  Distribution distribution;           // resolve_directives; rows are carried along by refine_chunks, merge_chunks
  Schedule schedule;                   // likewise
  std::vector<ChunkShape> shapes;      // [chunk] what its programs read and add to; empty before lower_programs
  Dag dag;                             // passes of the phases `build` and `order`
  StateLayout state;                   // likewise
  Provenance provenance;  // of directives, and of what passes made of them; each graph has one of its model

  const std::vector<Chunk>& chunks() const;
  const Graph& graph() const { return variants[0].chunked.graph; }
  const std::vector<Crossing>& crossings() const { return variants[0].lowered.crossings; }
  AccumulatorId find_accumulator(uint32_t parameter, ChunkId chunk) const;
  // The variant that a group of so many replicas runs, null where there is none.
  const ModelVariant* variant_for(int64_t replicas) const;
  // "F of PP0, microbatch 3": for messages.
  std::string describe(NodeId node) const;

  // For passes that have cut the chunks of every variant: carries distribution and schedule over to the new chunks.
  // `from`: [new chunk] -> the chunk it was cut from.
  void refine_chunks(const std::vector<ChunkId>& from);
  // The same for passes that have joined chunks. `into`: [chunk] -> the joined chunk that it became part of, ascending.
  void merge_chunks(const std::vector<ChunkId>& into);
};

// What plans call a phase.
plan::Pass pass_of(Phase phase, bool backward_split);
// The same in messages: "C", "N", "F", "B"; of a split backward "BI" and "BW".
std::string_view phase_name(Phase phase, bool backward_split);

}  // namespace piper::ir
