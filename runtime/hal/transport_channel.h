// The control channel over the transport that also carries the steps' messages: between threads of one process, and
// between processes of MPI.
#pragma once

#include "runtime/hal/control_channel.h"
#include "runtime/hal/transport.h"

namespace piper::hal {

class TransportChannel : public ControlChannel {
 public:
  // `transport` outlives it. Channels of other ids carry messages of their own, also at the same time.
  explicit TransportChannel(Transport& transport, int32_t channel = kHostChannel)
      : transport_(transport), channel_(channel) {}
  int32_t rank() const override { return transport_.rank(); }
  int32_t world_size() const override { return transport_.world_size(); }

 private:
  Result<std::string> exchange(int32_t to, std::string out, int32_t from, size_t in, const WaitControl& wait) override;

  Transport& transport_;
  int32_t channel_;
};

}  // namespace piper::hal
