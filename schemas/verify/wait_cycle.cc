#include "schemas/verify/wait_cycle.h"

#include <algorithm>

namespace piper::verify {
namespace {

// Component of each node, numbered in the order in which Tarjan's algorithm closes them (R. Tarjan,
// "Depth-first search and linear graph algorithms", 1972), without recursion.
std::vector<int32_t> components(const WaitGraph& graph) {
  const size_t count = graph.size();
  std::vector<int32_t> component(count, -1), entered(count, -1), low(count, 0), open;
  struct Frame {
    int32_t node;
    size_t edge;
  };
  std::vector<Frame> frames;
  int32_t clock = 0, closed = 0;
  for (size_t start = 0; start < count; ++start) {
    if (entered[start] >= 0) continue;
    frames.push_back({static_cast<int32_t>(start), 0});
    while (!frames.empty()) {
      const auto node = static_cast<size_t>(frames.back().node);
      if (frames.back().edge == 0) {
        entered[node] = low[node] = clock++;
        open.push_back(static_cast<int32_t>(node));
      }
      bool descended = false;
      for (size_t& edge = frames.back().edge; edge < graph[node].size();) {
        const auto next = static_cast<size_t>(graph[node][edge++]);
        if (entered[next] < 0) {
          frames.push_back({static_cast<int32_t>(next), 0});
          descended = true;
          break;
        }
        if (component[next] < 0) low[node] = std::min(low[node], entered[next]);
      }
      if (descended) continue;
      if (low[node] == entered[node]) {
        for (int32_t member = -1; member != static_cast<int32_t>(node);) {
          member = open.back();
          open.pop_back();
          component[static_cast<size_t>(member)] = closed;
        }
        ++closed;
      }
      frames.pop_back();
      if (frames.empty()) continue;
      const auto parent = static_cast<size_t>(frames.back().node);
      low[parent] = std::min(low[parent], low[node]);
    }
  }
  return component;
}

class Search {
 public:
  explicit Search(const WaitGraph& graph) : graph_(graph), component_(components(graph)), came_(graph.size(), -1) {}

  std::vector<int32_t> run() {
    for (size_t start = 0; start < graph_.size() && best_.size() != 1; ++start) from(static_cast<int32_t>(start));
    return best_;
  }

 private:
  // A cycle through `start` shorter than the best, breadth first.
  void from(int32_t start) {
    std::vector<int32_t> queue = {start}, depth = {1};
    for (size_t at = 0; at < queue.size(); ++at) {
      if (!best_.empty() && depth[at] >= static_cast<int32_t>(best_.size())) break;
      for (const int32_t next : graph_[static_cast<size_t>(queue[at])]) {
        if (next == start) {
          best_.clear();
          for (int32_t node = queue[at]; node != start; node = came_[static_cast<size_t>(node)]) best_.push_back(node);
          best_.push_back(start);
          std::reverse(best_.begin(), best_.end());
          at = queue.size();
          break;
        }
        // Lower nodes have had their turn: a cycle through them would have been found there.
        if (next < start || component_[static_cast<size_t>(next)] != component_[static_cast<size_t>(start)] ||
            came_[static_cast<size_t>(next)] >= 0)
          continue;
        came_[static_cast<size_t>(next)] = queue[at];
        queue.push_back(next);
        depth.push_back(depth[at] + 1);
      }
    }
    for (const int32_t node : queue) came_[static_cast<size_t>(node)] = -1;
  }

  const WaitGraph& graph_;
  std::vector<int32_t> component_;
  std::vector<int32_t> came_;  // node -> the node before it in this search, or -1
  std::vector<int32_t> best_;
};

}  // namespace

std::vector<int32_t> shortest_cycle(const WaitGraph& graph) { return Search(graph).run(); }

}  // namespace piper::verify
