#include "runtime/exec/session/stop_requests.h"

#include <unistd.h>

#include <algorithm>

namespace piper::exec {

void StopRequests::agree() {
  agreed = true;
  if (!by_threads) return;
  const unsigned grace = grace_s, left = alarm(0);
  if (left > 0) alarm(std::min(grace, grace - std::min(kAgreeSeconds, grace) + left));
}

}  // namespace piper::exec
