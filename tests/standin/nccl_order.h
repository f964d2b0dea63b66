// The ranks, communicators and calls of the stand-in for NCCL, and whether calls can ever end in the order in which
// they were issued. With the stand-in's mutex.
#pragma once

#include <nccl.h>

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/standin/nccl_work.h"
#include "tests/standin/race_detector.h"

namespace piper::standin {

class Capture;
struct World;
struct Rank;
struct Unit;
struct Launch;
class Link;

}  // namespace piper::standin

struct ncclComm {
  std::shared_ptr<piper::standin::World> world;
  std::shared_ptr<piper::standin::Link> link;  // where the members are processes; the world has this one alone then
  piper::standin::Rank* owner = nullptr;
  int rank = 0, max_ctas = 0, group = 0;
  std::string name;
  ncclResult_t error = ncclSuccess;
  std::string error_text;
  bool joined = false, finalized = false, destroyed = false, aborted = false;
  uint64_t collectives = 0;                          // issued
  std::map<std::pair<int, int>, uint64_t> messages;  // (from, to) -> issued
  std::shared_ptr<piper::standin::Unit> under_way;   // not enqueued yet
  bool asked = false;                                // about it, once
  std::vector<std::unique_ptr<piper::standin::Launch>> launches;
  piper::standin::Launch* last = nullptr;
  // Each of its calls that is a node of a graph, or of one that runs, has this, too.
  std::shared_ptr<const char> in_graphs = std::make_shared<const char>();

  bool over() const { return destroyed || aborted; }
};

namespace piper::standin {

// The communicators of one unique id.
struct World {
  std::vector<ncclComm*> members;
  size_t joined = 0;
  bool failed = false;
};

// Which call: the number of a collective, or of a message from one member to another.
struct Key {
  World* world = nullptr;
  int from = -1, to = -1;
  uint64_t number = 0;
  auto operator<=>(const Key&) const = default;
};

struct Call : Work {
  ncclComm* comm = nullptr;
  int peer = -1;
  cudaStream_t stream = nullptr;
  Key key;
  Range read, written;
  bool matched = false;  // all members have issued theirs, and come to it in issue order
};

// Calls that were issued together.
struct Unit {
  std::vector<Call> calls;
  bool enqueued = false;
};

// The part of a unit on one stream. It may run several times: graphs are replayed.
struct Launch {
  std::shared_ptr<Unit> unit;
  cudaStream_t stream = nullptr;
  std::vector<Call*> calls;
  std::vector<Launch*> after;        // of the same communicators, on other streams
  std::shared_ptr<Capture> capture;  // of which it is a part; nullptr: none
  uint64_t runs = 0, finished = 0;   // begun, and over
};

// One thread of the process.
struct Rank {
  std::deque<std::shared_ptr<Unit>> queue;  // issued and not matched, in issue order
  std::vector<ncclComm*> communicators;
  int groups = 0;  // in which communicators were initialised
  size_t device_bytes = 0;
  // The group that is open.
  int depth = 0;
  std::vector<ncclComm*> joining;
  std::vector<Call> calls;
  std::vector<ncclComm*> aborting;
  ncclResult_t refused = ncclSuccess;
  std::string refusal;  // of a call that returned an error
};

std::string member_of(const ncclComm& comm);  // "member 0 of 'dp'"
// The members whose calls meet in this one.
std::vector<ncclComm*> participants(const Call& call);

// The calls of a group. A send of a member to itself and its receive, which NCCL wants in one group, become one call: a
// copy. Nothing: one of them has no other end, or one of another size or stream.
std::optional<std::vector<Call>> with_own_messages_joined(const std::vector<Call>& calls);

// Takes from the ranks' queues what all members have come to.
void advance(const std::set<Rank*>& ranks);
struct Deadlock {
  std::string text;
  std::vector<World*> worlds;
};
// A cycle of ranks, each of which waits in its first unfinished call for the next one, which is at other calls.
std::optional<Deadlock> find_deadlock(const std::set<Rank*>& ranks);

}  // namespace piper::standin
