// Which processes of a run are on this node, and which of them have ended: a process in shared memory leaves no broken
// connection. Used by the UCX transport's progress thread; it sends nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/base/status.h"

namespace piper::hal {

// What this process sends to the others: "PID NODE", where NODE is the same text for processes that can see each
// other's ids, share memory and have one network (one boot of one machine, the same namespaces).
std::string process_identity();

// Whether two of these processes share memory and have two networks, as containers of one machine may. Shared memory
// is then no way between them, since the sockets that wake a reader are of one network; UCX 1.13 takes it for one.
bool share_memory_without_network(const std::vector<std::string>& identities);

class ProcessWatch {
 public:
  // `identities`: of all ranks, by rank. R0303: the system gives no descriptors.
  Status open(const std::vector<std::string>& identities, int32_t own_rank);
  ProcessWatch() = default;
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;
  ~ProcessWatch();

  bool on_this_node(int32_t rank) const { return here_.at(static_cast<size_t>(rank)); }
  int32_t ranks_on_this_node() const;
  // A descriptor that is readable when there is something to take.
  int descriptor() const { return epoll_; }
  // The ranks of this node that ended since the last call.
  std::vector<int32_t> take_ended();

 private:
  int epoll_ = -1;
  std::vector<bool> here_;         // by rank
  std::vector<int> descriptors_;   // by rank: a pidfd, -1: none
  std::vector<int32_t> vanished_;  // before they could be watched
};

}  // namespace piper::hal
