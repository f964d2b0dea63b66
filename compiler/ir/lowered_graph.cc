#include "compiler/ir/lowered_graph.h"

#include <algorithm>

namespace piper::ir {
namespace {

void sort_each_once(std::vector<uint32_t>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace

std::vector<ChunkShape> chunk_shapes(const LoweredGraph& lowered, size_t num_chunks) {
  std::vector<ChunkShape> shapes(num_chunks);
  for (const LoweredProgram& program : lowered.programs) {
    ChunkShape& shape = shapes[program.chunk.index];
    const auto phase = static_cast<size_t>(program.phase);
    shape.has[phase] = true;
    for (const SlotHolds& holds : program.holds) {
      if (holds.kind == SlotHolds::Kind::kParameter) {
        shape.reads.push_back(holds.index);
        shape.phase_reads[phase].push_back(holds.index);
      }
      if (holds.kind == SlotHolds::Kind::kGradient) shape.gradients.push_back(holds.index);
    }
  }
  for (const LoweredProgram& program : lowered.repeating)
    for (const SlotHolds& holds : program.holds)
      if (holds.kind == SlotHolds::Kind::kParameter)
        shapes[program.chunk.index].repeating_reads[static_cast<size_t>(program.phase)].push_back(holds.index);
  for (const Exchange& exchange : lowered.exchanges)
    shapes[exchange.chunk.index].has[static_cast<size_t>(exchange.phase)] = true;
  for (ChunkShape& shape : shapes) {
    sort_each_once(shape.reads);
    sort_each_once(shape.gradients);
  }
  return shapes;
}

}  // namespace piper::ir
