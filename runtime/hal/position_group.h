// Collectives of a group as sequences of transfers, copies and additions on one queue. Sums are added in the order of
// the positions in the group, piece by piece so that scratch stays small: the bits depend on that order alone, not on
// device, link or size of a bucket. What the parts are is the device's.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/hal/collectives.h"
#include "runtime/hal/transport.h"

namespace piper::hal {

struct DeviceTransfer {
  Direction direction = Direction::kSend;
  int32_t peer = -1;  // rank
  int32_t channel = 0;
  Address data;
  int64_t bytes = 0;
};

// to[i] += from[i], for `count` elements. R0404: a type that the device cannot add.
using MakeAdd = std::function<MadeCommand(Address to, Address from, int64_t count, DType dtype)>;

struct GroupParts {
  // Transfers that are issued together; at most one per direction, peer and channel.
  std::function<MadeCommand(const std::vector<DeviceTransfer>&)> exchange;
  MakeAdd add;
  std::function<std::unique_ptr<Command>(Address to, Address from, int64_t bytes)> copy;
};

// `position` of this rank in `ranks`; `channel` and the next one are the group's own.
std::unique_ptr<Group> make_position_group(GroupParts parts, std::vector<int32_t> ranks, int64_t position,
                                           int32_t channel);

}  // namespace piper::hal
