// Bytes between the hosts of a run, beside the data of the steps: what ranks agree on before the first step, ids of
// communicators, pieces of checkpoints. Written once on a primitive exchange(), so that every way of reaching each
// other carries the same messages: over a Transport (transport_channel.h), or over a TCP store (tcp/). All ranks make
// the same calls in the same order; each sends about log2(ranks) messages a call. Not for steps: it allocates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/hal/stop.h"
#include "schemas/base/status.h"

namespace piper::hal {

class ControlChannel {
 public:
  virtual ~ControlChannel() = default;
  virtual int32_t rank() const = 0;
  virtual int32_t world_size() const = 0;

  // Every rank's bytes, by rank. R0303: they are more than 4 GiB together.
  Result<std::vector<std::string>> allgather(const std::string& mine, const WaitControl& wait);
  Status barrier(const WaitControl& wait);
  // From one rank to another, in messages of kMessageBytes.
  static constexpr int64_t kMessageBytes = int64_t{16} << 20;
  Status send(int32_t peer, const void* data, int64_t bytes, const WaitControl& wait);
  Status receive(int32_t peer, void* data, int64_t bytes, const WaitControl& wait);

 protected:
  static constexpr int32_t kNobody = -1;
  // Sends `out` to rank `to` and receives a message of `in` bytes from rank `from`, at the same time; either rank may
  // be kNobody. `out` belongs to the implementation from the call on. Returns the received bytes. R0301: the sender's
  // message has another size; R0302: timed out; R0303: the library failed; stopped() after a failure elsewhere.
  virtual Result<std::string> exchange(int32_t to, std::string out, int32_t from, size_t in,
                                       const WaitControl& wait) = 0;

 private:
  // exchange() of a meeting of all ranks, whose exchanges have the same numbers everywhere: WaitControl::messages is
  // given these, and no others.
  Result<std::string> meet(int32_t to, std::string out, int32_t from, size_t in, const WaitControl& wait);
};

}  // namespace piper::hal
