// Cuts a recording at the commands that cannot be captured: graphs, and what is issued one by one between them. Each
// segment begins after all of the one before it. That is coarser than the order of the plan's events, and holds no
// deadlock: it follows from issue order, in which a rank may execute all of its instructions one after the other (level
// D2 of the proof).
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/hal/device.h"

namespace piper::hal {

struct Segment {
  size_t begin = 0, end = 0;  // of the commands
  bool captured = false;
  std::vector<size_t> queues;  // of its commands, without the first one; ascending
};

struct Segments {
  std::vector<Segment> list;
  // By command: a wait for an event that is recorded outside of its segment, which the cut orders already. It must not
  // be issued: a graph knows no events of others.
  std::vector<bool> ordered_by_cut;
  std::vector<Uncaptured> uncaptured;
};

// Events alone make no graph: they are issued with their neighbours. The events are those of event_commands.h.
Segments cut_into_segments(const std::vector<Issue>& commands);

}  // namespace piper::hal
