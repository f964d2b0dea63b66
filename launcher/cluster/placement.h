// Which nodes get the parts of a job, and which node is to get none any more. Rules alone: no state of a daemon.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace piper::launcher {

// What a daemon knows of a node.
struct NodeState {
  std::string name;
  int32_t slots = 0, used = 0;
  bool answers = false;
  bool drained = false;  // it starts nothing
  std::string why;       // it does not answer
};

struct Placement {
  std::vector<std::string> nodes;  // by the number that they have in the job; empty: not now
  std::string why;
};

// The first `count` nodes of the list that have `ranks` free slots, answer, are not drained and not `excluded`.
Placement place(const std::vector<NodeState>& nodes, int32_t count, int32_t ranks,
                const std::vector<std::string>& excluded);

// Why the job can never be placed, however empty the nodes are; "": it can.
std::string never_fits(const std::vector<NodeState>& nodes, int32_t count, int32_t ranks,
                       const std::vector<std::string>& excluded);

// The node that attempts of a job failed on, as often as it was the same one without a break.
struct FailingNode {
  std::string name;  // empty: none
  int32_t times = 0;
};
inline constexpr int32_t kExcludeAfter = 3;

// After an attempt that failed on `node`, which is empty where that is not known. True: the node is to be excluded.
bool fails_too_often(FailingNode& failing, const std::string& node);

// How a part of a job ended, in the order in which that was heard.
struct PartEnd {
  std::string node;
  int exit_status = 0;
  bool lost = false;    // its node does not answer any more
  bool killed = false;  // because another one had failed
};
// The part by whose end the attempt is judged: a node that is lost, else the first that failed by itself and not
// because its peers were gone (76) or asked to end (75, 143). Null: all ended well.
const PartEnd* cause_of(const std::vector<PartEnd>& ends);

}  // namespace piper::launcher
