#include "runtime/exec/graph_cuts.h"

#include <map>

#include "runtime/exec/instruction_text.h"

namespace piper::exec {

std::vector<std::string> graph_cuts(const LoadedRank& rank) {
  struct Cut {
    int32_t first = 0;
    size_t more = 0;
  };
  std::map<std::string, Cut> cuts;  // by reason
  for (const hal::Uncaptured& command : rank.step->uncaptured()) {
    const auto [cut, is_new] = cuts.try_emplace(command.reason, Cut{command.instruction, 0});
    if (!is_new) ++cut->second.more;
  }
  std::vector<std::string> lines;
  for (const auto& [reason, cut] : cuts)
    lines.push_back("rank " + std::to_string(rank.plan->rank) + ", " +
                    describe_instruction(*rank.bundle, *rank.plan, cut.first) +
                    (cut.more == 0 ? "" : " and " + std::to_string(cut.more) + " more") +
                    ": it cannot be part of a graph: " + reason);
  return lines;
}

}  // namespace piper::exec
