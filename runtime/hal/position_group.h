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

// A piece of a sum, from each member: `own` becomes the sum of all, added in the order of the positions.
struct PieceSum {
  DType message = DType::kF32, sum = DType::kF32;  // of the elements; in which they are added, then rounded
  int64_t members = 1, position = 0;
  Address own;  // [count]
  // The others', by position without the own one, `stride` bytes apart. Overwritten.
  Address others;
  int64_t stride = 0, count = 0;

  Address place_of(int64_t member) const { return others + (member < position ? member : member - 1) * stride; }
};

struct Elements {
  Address data;
  DType type = DType::kF32;
};

// R0404: types that the device cannot add or convert.
struct GroupParts {
  // Transfers that are issued together; at most one per direction, peer and channel.
  std::function<MadeCommand(const std::vector<DeviceTransfer>&)> exchange;
  std::function<MadeCommand(const PieceSum&)> sum;
  std::function<std::unique_ptr<Command>(Address to, Address from, int64_t bytes)> copy;
  std::function<MadeCommand(Elements to, Elements from, int64_t count)> convert;
  // For rows that are counted when it executes. Unset: this device's counts are not the host's.
  std::function<MadeCommand(const ExchangeOperands&)> exchange_counted = nullptr;
};

// The parts that are kernels, where a library of kernels has them.
struct GroupKernels {
  std::function<MadeCommand(const PieceSum&)> sum;
  std::function<MadeCommand(Elements to, Elements from, int64_t count)> convert;
};

// `position` of this rank in `ranks`; `channel` and the next one are the group's own.
std::unique_ptr<Group> make_position_group(GroupParts parts, std::vector<int32_t> ranks, int64_t position,
                                           int32_t channel);

}  // namespace piper::hal
