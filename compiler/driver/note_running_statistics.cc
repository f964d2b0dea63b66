#include "compiler/driver/note_running_statistics.h"

#include <set>

namespace piper::driver {

void note_running_statistics(const directives::Placement& placement, const ir::Dag& dag, const ModelVariant& reference,
                             diag::Diagnostics& diags) {
  const ir::Graph& graph = reference.chunked.graph;
  std::set<uint32_t> apart;
  std::set<int32_t> devices;
  ir::ChunkId first;
  for (const emit::LoweredProgram& program : reference.lowered.programs) {
    std::set<int32_t> here;
    for (ir::GroupId group : dag.placement[program.chunk.index])
      here.insert(dag.groups[group.index].ranks.begin(), dag.groups[group.index].ranks.end());
    if (here.size() < 2) continue;
    for (size_t slot = 0; slot < program.holds.size(); ++slot) {
      if (program.holds[slot].kind != emit::SlotHolds::Kind::kBuffer || !program.program.slots[slot].writes) continue;
      apart.insert(program.holds[slot].index);
      devices.insert(here.begin(), here.end());
      if (!first.valid()) first = program.chunk;
    }
  }
  if (apart.empty()) return;
  auto warning = diags.warning("P0334", placement.at(first, 0).span);
  warning << "running statistics '" << graph.buffers()[*apart.begin()].names[0] << "'"
          << (apart.size() > 1 ? " and " + std::to_string(apart.size() - 1) + " more" : std::string())
          << " are kept by each of " << devices.size() << " devices from its own samples; the first device's are saved";
}

}  // namespace piper::driver
