#include "runtime/hal/stop.h"

namespace piper::hal {

namespace {
constexpr const char* kStopped = "stopped";
}

void Stop::raise(Status failure) {
  std::lock_guard lock(mutex_);
  if (raised_.load(std::memory_order_relaxed)) return;
  failure_ = std::move(failure);
  raised_.store(true, std::memory_order_release);
}

Status Stop::failure() {
  std::lock_guard lock(mutex_);
  return failure_.ok() ? Status() : Status(failure_.error());
}

Status Stop::take_failure() {
  std::lock_guard lock(mutex_);
  return std::move(failure_);
}

Status stopped() { return Status::reported(kStopped); }

bool is_stopped(const Status& status) { return !status.ok() && status.error().code == kStopped; }

}  // namespace piper::hal
