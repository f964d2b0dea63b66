// Facts that all programs of a graph share while they are lowered: where each value is stored, which programs read it,
// and which kernels add into accumulators. Internal to compiler/emit: made once by lower_programs, read by
// ProgramBuilder.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/emit/layout.h"
#include "compiler/emit/lower_programs.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/op_traits.h"
#include "compiler/ir/spreads.h"
#include "compiler/ir/step_scalars.h"

namespace piper::emit {

// A program under construction is identified by its chunk and phase.
using ProgramKey = std::pair<uint32_t, ir::Phase>;

// Where a root is stored, seen from the program that makes it.
enum class Home : uint8_t { kLeaf, kWorkspace, kSaved, kOwnSlot, kCount, kStepValue };

// The reads and homes of every root of the graph: what all programs of it share.
struct Usage {
  std::vector<Home> home;                     // [value], of roots
  std::vector<std::set<ProgramKey>> readers;  // [value], of roots
  std::vector<uint32_t> num_reads;            // [value], of roots: operands of kernels that read it
  std::vector<int64_t> saved_offset;          // [value], in a saved block of its chunk
  std::vector<uint8_t> saved_block;           // [value], an ir::SavedBlock
  std::vector<std::array<int64_t, ir::kNumSavedBlocks>> saved_bytes;  // [chunk]
};

// One gradient contribution that is added into an accumulator.
struct Contribution {
  ir::ValueId value;
  uint32_t parameter = 0;
};

// For one graph; the constructor fills everything.
struct Lowering {
  Lowering(const ir::Graph& graph, size_t num_chunks, const std::vector<ir::Layout>* like);

  const ir::Op& op(size_t i) const { return graph.op(ir::OpId(i)); }
  ir::ValueId root(ir::ValueId v) const { return layouts[v.index].root; }
  bool is_call(size_t i) const {
    const ir::OpKind kind = op(i).kind;
    return !skipped.count(static_cast<uint32_t>(i)) && kind != ir::OpKind::kAccumulateGrad &&
           kind != ir::OpKind::kStepSum && !ir::is_communication(kind) && !is_view(graph, layouts, ir::OpId(i));
  }

  const ir::Graph& graph;
  std::vector<ir::StepSum> sums;  // rows of step_sums
  std::vector<ir::Layout> layouts;
  Usage usage;
  std::vector<ir::ValueSpread> spreads;                                   // [value]
  std::vector<int64_t> root_bytes;                                        // [value]
  std::vector<int64_t> parameter_index;                                   // [value]
  std::vector<size_t> plain_uses;                                         // [value]: ops that name it
  std::unordered_map<uint32_t, std::vector<Contribution>> contributions;  // accumulate_grad op -> parts
  std::set<uint32_t> skipped;                                             // adds that became two accumulations
  // root made by an accumulating kernel -> (parameter, strides of the root over the accumulator)
  std::unordered_map<uint32_t, std::pair<uint32_t, std::vector<int64_t>>> accumulated;

 private:
  void collect_contributions();
  void split_sum(ir::ValueId value, uint32_t parameter, ir::ChunkId chunk, std::vector<Contribution>& parts);
  void analyse_usage();
  void choose_accumulating_kernels();
  bool accumulator_strides(ir::ValueId gradient, ir::ValueId root, std::vector<int64_t>& strides) const;
};

}  // namespace piper::emit
