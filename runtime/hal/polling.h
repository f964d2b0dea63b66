// Waits for what cannot wake who waits for it: a device, a library. It is asked again and again, until it is there, a
// Stop is raised, or time is up.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/hal/stop.h"

namespace piper::hal {

// How far work has come.
class Progress {
 public:
  virtual ~Progress() = default;
  // By queue, the instruction that it is at; asking may take long.
  virtual std::vector<int32_t> positions() const = 0;
};

class Polling {
 public:
  // `progress` outlives it; nullptr: unknown. Where it is known, time begins anew whenever it has changed, and is up
  // only where nothing has changed for `timeout`.
  explicit Polling(const WaitControl& wait, const Progress* progress = nullptr);
  // After a look that found nothing: sleeps a little, except in the first millisecond. False: time is up.
  bool pause();

 private:
  using Clock = std::chrono::steady_clock;
  const WaitControl wait_;
  const Progress* const progress_;
  const Clock::time_point begin_;
  Clock::time_point changed_, looked_;  // at the positions
  std::vector<int32_t> positions_;
};

// R0302.
Status timed_out(const WaitControl& wait, const std::string& what);

// Until `ready`, a Result<bool>, is true. Its error; stopped(); R0302 with `what`, a text or what can be called for
// one.
template <class Ready, class What>
Status wait_until(const WaitControl& wait, const Ready& ready, const What& what, const Progress* progress = nullptr) {
  for (Polling polling(wait, progress);;) {
    PIPER_ASSIGN(const bool there, ready());
    if (there) return {};
    if (raised(wait)) return stopped();
    if (!polling.pause()) return timed_out(wait, what());
  }
}

}  // namespace piper::hal
