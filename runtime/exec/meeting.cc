#include "runtime/exec/meeting.h"

#include <cstring>
#include <string>
#include <vector>

#include "schemas/live/process_state.h"

namespace piper::exec {
namespace {

// What a rank's clock says when all ranks meet, and which machine's clock it is.
struct ClockReading {
  uint64_t machine = 0;
  int64_t ns = 0;
};

}  // namespace

Result<std::chrono::steady_clock::time_point> meeting(hal::ControlChannel& control, const hal::WaitControl& wait) {
  PIPER_RETURN_IF_ERROR(control.barrier(wait));
  const ClockReading mine{live::boot_id(), std::chrono::steady_clock::now().time_since_epoch().count()};
  PIPER_ASSIGN(const std::vector<std::string> all,
               control.allgather(std::string(reinterpret_cast<const char*>(&mine), sizeof(mine)), wait));
  ClockReading first = mine;
  for (size_t r = all.size(); r-- > 0;) {
    ClockReading other;
    std::memcpy(&other, all[r].data(), sizeof(other));
    if (other.machine == mine.machine) first = other;
  }
  return std::chrono::steady_clock::time_point(std::chrono::steady_clock::duration(first.ns));
}

}  // namespace piper::exec
