// A slower network than the machine has, for benchmarks and tests: a transport on top of another one. Every rank has
// one port out and one port in of `bytes_per_second`, as a network adapter, which what it sends and what it receives
// share (schemas/plan/link_port.h), and a message is there `latency` later. What one exchange sends to several ranks,
// or receives of them, is there at one time. Only the thread that receives waits, so lanes do not hold each other up.
// Sends end as early as those below. The host's own messages are not delayed. Ranks on several machines need clocks
// that agree; an arrival is at most one delay late.
#pragma once

#include <chrono>
#include <memory>

#include "runtime/hal/transport.h"

namespace piper::hal {

struct LinkDelay {
  std::chrono::microseconds latency{0};
  int64_t bytes_per_second = 0;  // of a port; 0: messages of any size take the latency alone
};

// All ranks must use the same. `below` must outlive the result, and the result its exchanges.
std::unique_ptr<Transport> delay_links(Transport& below, const LinkDelay& delay);

}  // namespace piper::hal
