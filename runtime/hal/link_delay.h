// A slower network than the machine has, for benchmarks and tests: a transport on top of another
// one, whose messages arrive `latency` plus bytes / `bytes_per_second` after they were sent. Only the
// thread that receives waits, so lanes do not hold each other up; every message has the full rate.
// Sends end as early as those below. The host's own messages are not delayed. Ranks on several
// machines need clocks that agree; an arrival is at most one delay late.
#pragma once

#include <chrono>
#include <memory>

#include "runtime/hal/transport.h"

namespace piper::hal {

struct LinkDelay {
  std::chrono::microseconds latency{0};
  int64_t bytes_per_second = 0;  // 0: messages of any size take the latency alone
};

// All ranks must use the same. `below` must outlive the result, and the result its exchanges.
std::unique_ptr<Transport> delay_links(Transport& below, const LinkDelay& delay);

}  // namespace piper::hal
