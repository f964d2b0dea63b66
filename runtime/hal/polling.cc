#include "runtime/hal/polling.h"

#include <thread>

namespace piper::hal {

namespace {
constexpr auto kShort = std::chrono::milliseconds(1);
constexpr auto kSleep = std::chrono::microseconds(50);
constexpr int kLooks = 4;  // at the positions, in the time that they may stay the same
}  // namespace

Polling::Polling(const WaitControl& wait, const Progress* progress)
    : wait_(wait), progress_(progress), begin_(Clock::now()), changed_(begin_), looked_(begin_) {}

bool Polling::pause() {
  const auto now = Clock::now();
  const bool up = now - changed_ > wait_.timeout;
  if (progress_ != nullptr && (up || now - looked_ > wait_.timeout / kLooks)) {
    looked_ = now;
    std::vector<int32_t> positions = progress_->positions();
    const bool first = positions_.empty(), same = positions == positions_;
    positions_ = std::move(positions);
    if (!first && !same) {
      changed_ = now;
      return true;
    }
  }
  if (up) return false;
  if (now - begin_ > kShort) std::this_thread::sleep_for(kSleep);
  else std::this_thread::yield();
  return true;
}

Status timed_out(const WaitControl& wait, const std::string& what) {
  return Status::failure("R0302", "waited " + std::to_string(wait.timeout.count() / 1000) + " s for " + what);
}

}  // namespace piper::hal
