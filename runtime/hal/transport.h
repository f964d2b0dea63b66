// How the ranks of a run reach each other: sets of point-to-point transfers, prepared at load and
// carried out as often as needed. Everything else (cpu/, transport_channel.h)
// is written once on top of it, so that every backend gives the same bits. Backends: local/ (all ranks in one
// process), mpi/ and ucx/.
//
// Whose memory: a run() that returned ok has let go of the memory of its transfers. One that failed may have left
// messages under way that are read and written until the transport is gone. So memory that an exchange points to
// either outlives the transport or is handed to its keep().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/hal/stop.h"
#include "schemas/base/status.h"

namespace piper::hal {

// Channel ids: a plan's own below kPlanChannels, then two per communicator of the plan for its collectives, then the
// host's three; then what link_delay.h adds. Messages of one (source, destination, channel) match in order.
inline constexpr int32_t kPlanChannels = 1 << 20;
inline constexpr int32_t kGroupChannels = 1 << 20;
inline constexpr int32_t kHostChannel = 1 << 22;
inline constexpr int32_t kCheckpointChannel = kHostChannel + 1;  // of the threads that write checkpoints
inline constexpr int32_t kStopChannel = kHostChannel + 2;        // of the threads that agree on where to stop
inline constexpr int32_t kChannels = 1 << 23;                    // all ids are below

enum class Direction : uint8_t { kSend, kReceive };

struct Transfer {
  Direction direction = Direction::kSend;
  int32_t peer = -1;  // rank
  int32_t channel = 0;
  std::byte* data = nullptr;  // only read by a send
  int64_t bytes = 0;
};

// Transfers that are posted together; run() returns when all are complete, or one has failed. Within one exchange at
// most one transfer per direction, peer and channel. One thread at a time; not again after a failure.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // R0301 sizes of the two ends differ, R0302 timed out (names the peer), R0303 the library failed;
  // stopped() after a failure elsewhere.
  virtual Status run(const WaitControl& control) = 0;
  // Before a run: transfer `transfer` of the list carries `bytes` from now on, at most what it was prepared for.
  virtual void resize(size_t transfer, int64_t bytes) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int32_t rank() const = 0;
  virtual int32_t world_size() const = 0;
  virtual std::unique_ptr<Exchange> prepare(std::vector<Transfer> transfers) = 0;
  // Bytes this backend allocated itself for messages.
  virtual int64_t buffer_bytes() const = 0;
  // Holds memory of exchanges until this transport has let go of all messages, which is when it is gone. Any thread.
  virtual void keep(std::shared_ptr<const void> memory);

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<const void>> kept_;  // destroyed after the backend
};

// "rank 3 to receive (channel 2)": what an exchange that waits is waiting for.
std::string describe_wait(const Transfer& transfer);

}  // namespace piper::hal
