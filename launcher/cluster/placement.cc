#include "launcher/cluster/placement.h"

#include <algorithm>

namespace piper::launcher {

namespace {

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string slots_text(int32_t slots) { return std::to_string(slots) + (slots == 1 ? " slot" : " slots"); }

std::string wanted(int32_t count, int32_t ranks) {
  return std::to_string(count) + (count == 1 ? " node" : " nodes") + " with " + slots_text(ranks);
}

std::string state_text(const NodeState& node, bool excluded) {
  if (excluded) return node.name + " is excluded";
  if (!node.answers) return node.name + " does not answer";
  if (node.drained) return node.name + " is drained";
  return node.name + " has " + std::to_string(std::max(0, node.slots - node.used)) + " free";
}

bool is_consequence(const PartEnd& end) {
  return end.killed || end.exit_status == 75 || end.exit_status == 76 || end.exit_status == 143;
}

}  // namespace

Placement place(const std::vector<NodeState>& nodes, int32_t count, int32_t ranks,
                const std::vector<std::string>& excluded) {
  Placement placement;
  for (const NodeState& node : nodes) {
    if (static_cast<int32_t>(placement.nodes.size()) == count) break;
    const bool out = is_among(excluded, node.name);
    if (!out && node.answers && !node.drained && node.slots - node.used >= ranks) placement.nodes.push_back(node.name);
    else placement.why += (placement.why.empty() ? "" : ", ") + state_text(node, out);
  }
  if (static_cast<int32_t>(placement.nodes.size()) == count) return {std::move(placement.nodes), ""};
  return {{}, "waits for " + wanted(count, ranks) + ": " + placement.why};
}

std::string never_fits(const std::vector<NodeState>& nodes, int32_t count, int32_t ranks,
                       const std::vector<std::string>& excluded) {
  int32_t fit = 0;
  std::string without;
  for (const NodeState& node : nodes) {
    const bool out = is_among(excluded, node.name);
    if (out) without += (without.empty() ? ", without " : ", ") + node.name;
    if (!out && node.slots >= ranks) ++fit;
  }
  if (fit >= count) return "";
  return "it wants " + wanted(count, ranks) + ", and there are " + std::to_string(fit) + without;
}

bool fails_too_often(FailingNode& failing, const std::string& node) {
  failing.times = !node.empty() && failing.name == node ? failing.times + 1 : 1;
  failing.name = node;
  if (node.empty() || failing.times < kExcludeAfter) return false;
  failing = {};
  return true;
}

const PartEnd* cause_of(const std::vector<PartEnd>& ends) {
  const PartEnd* first = nullptr;
  for (const PartEnd& end : ends)
    if (end.lost) return &end;
  for (const PartEnd& end : ends) {
    if (end.exit_status == 0) continue;
    if (!is_consequence(end)) return &end;
    if (first == nullptr) first = &end;
  }
  return first;
}

}  // namespace piper::launcher
