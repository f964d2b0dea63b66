// How the ranks of a run reach each other: sets of point-to-point transfers, prepared at load and
// carried out as often as needed. Everything else (all_reduce.h, all_to_all.h, host_collectives.h, ...)
// is written once on top of it, so that every backend gives the same bits. Backends: local/ (all ranks in one
// process) and mpi/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/hal/stop.h"
#include "schemas/base/status.h"

namespace piper::hal {

// Channel ids: a plan's own below kPlanChannels, then two per communicator for its collectives, then the
// host's; then what link_delay.h adds. Messages of one (source, destination, channel) match in order.
// Kept under 2^23, which every MPI allows as a tag.
inline constexpr int32_t kPlanChannels = 1 << 20;
inline constexpr int32_t kGroupChannels = 1 << 20;
inline constexpr int32_t kHostChannel = 1 << 22;

enum class Direction : uint8_t { kSend, kReceive };

struct Transfer {
  Direction direction = Direction::kSend;
  int32_t peer = -1;  // rank
  int32_t channel = 0;
  std::byte* data = nullptr;  // only read by a send
  int64_t bytes = 0;
};

// Transfers that are posted together; run() returns when all are complete. Within one exchange at
// most one transfer per direction, peer and channel. One thread at a time.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // R0301 sizes of the two ends differ, R0302 timed out (names the peer), R0303 the library failed;
  // stopped() after a failure elsewhere.
  virtual Status run(const WaitControl& control) = 0;
  // Before a run: transfer `transfer` of the list carries `bytes` from now on, at most what it was prepared for.
  virtual void resize(size_t transfer, int64_t bytes) = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int32_t rank() const = 0;
  virtual int32_t world_size() const = 0;
  virtual std::unique_ptr<Exchange> prepare(std::vector<Transfer> transfers) = 0;
  // Bytes this backend allocated itself for messages.
  virtual int64_t buffer_bytes() const = 0;
};

// "rank 3 to receive (channel 2)": what an exchange that waits is waiting for.
std::string describe_wait(const Transfer& transfer);

}  // namespace piper::hal
