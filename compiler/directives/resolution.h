// The draft into which all directives of a strategy are resolved, one by one: properties of the model's regions. A
// directive first checks its arguments against the regions and against the draft. One with an error adds nothing, and
// the others are resolved anyway, so that the user sees all errors at once. The module takes the draft over where
// no directive had an error. No directive is read a second time: passes read the properties of regions, which are
// carried along where regions are cut or joined (ir/module.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/directives/claims.h"
#include "compiler/directives/select.h"
#include "compiler/ir/module.h"
#include "compiler/strategy/strategy.h"

namespace piper::directives {

// Where orders name the halves of the backward of a region on a microbatch.
struct HalfNames {
  std::optional<diag::Span> input, weight;
};

struct Resolution {
  // `module` has the regions (its variants are bound) and the step; it outlives the draft.
  explicit Resolution(const ir::Module& module);

  const ir::Graph& graph;
  const std::vector<ir::Chunk>& regions;
  const ir::Step& step;
  const Selector selector;

  // Claims of the directives that say who runs what (stage kPlace).
  Claims claims;
  std::vector<int64_t> replicas;  // [region] number of devices of all the replicates that name it
  // Rows of properties and groups of experts, as directives are resolved. Groups, devices and world size only once the
  // claims are settled.
  ir::Distribution distribution;
  std::vector<std::string> expert_streams;  // [expert_groups] the stream as the user named it: they are numbered last
  std::vector<bool> experts_take;           // [expert_groups] a region takes those of its own devices out of them
  std::vector<std::string> cut_streams;     // [cuts] likewise
  ir::Provenance provenance;
  diag::Span cut_by;  // of the user's first directive that spreads a region's samples over devices; line 0: none

  // Slots of orders.
  ir::Schedule schedule;
  std::vector<HalfNames> halves;  // [region * num_microbatches + microbatch]

  // For a directive that spreads samples over devices: sets cut_by where it is the first in the file.
  void note_cut(const strategy::Directive& directive);
  const std::string& name(ir::ChunkId region) const { return regions[region.index].name; }
  ir::ChunkProperties& properties(ir::ChunkId region) { return distribution.chunks[region.index]; }
};

// Checks the claims as a whole and makes the placement of them: groups, streams of messages, world size. Without any
// claim everything is on device 0. Errors: P0219 a region without device beside placed ones, P0214 several devices
// without replicate or shard, P0227 an unused rank in between, P0215 one region on unequal groups that overlap, a
// device at two positions of groups of one size, or a shard whose groups do not partition the devices of its regions.
Status settle(Resolution& resolution, diag::Diagnostics& diags);

}  // namespace piper::directives
