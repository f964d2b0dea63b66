#include "runtime/data/read_ahead.h"

#include <chrono>
#include <functional>

#include "runtime/data/guarded_read.h"
#include "schemas/base/check.h"

namespace piper::data {

ReadAhead::ReadAhead(const DataSource& source, std::vector<Part> parts, int64_t first, int64_t last,
                     const trace::RingTrack& track)
    : source_(source), parts_(std::move(parts)), first_(first), last_(last), track_(track) {
  for (const Part& part : parts_) step_bytes_ += part.bytes;
  if (first_ > last_ || step_bytes_ == 0) return;
  for (Slot& slot : slots_) slot.samples.resize(static_cast<size_t>(step_bytes_));
  thread_ = std::thread([this] { read_steps(); });
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ReadAhead::fill(int64_t step, std::byte* to) const {
  for (const Part& part : parts_) {
    source_.fill(part.input, step, part.first, part.count, to);
    to += part.bytes;
  }
}

void ReadAhead::read_steps() {
  int64_t step = first_;
  const std::function<void()> read = [this, &step] { fill(step, slot_of(step).samples.data()); };
  for (; step <= last_; ++step) {
    Slot& slot = slot_of(step);
    track_.event(live::EventKind::kIdle, step);
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || slot.step == 0; });
      if (stopped_) return;
    }
    track_.event(live::EventKind::kRead, step);
    // The slot is this thread's until it has a step.
    bool whole = false;
    try {
      whole = guarded_read(read);
    } catch (...) {  // NOLINT(bugprone-empty-catch): the thread that takes the step meets it
    }
    {
      const std::lock_guard lock(mutex_);
      slot.whole = whole;
      slot.step = step;
    }
    changed_.notify_all();
  }
  track_.event(live::EventKind::kIdle, last_ + 1);
}

const std::byte* ReadAhead::take(int64_t step) {
  PIPER_CHECK(step >= first_ && step <= last_ && taken_ == 0);
  const auto begin = std::chrono::steady_clock::now();
  Slot& slot = slot_of(step);
  if (thread_.joinable()) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return slot.step == step; });
    taken_ = step;
  }
  if (thread_.joinable() && !slot.whole) fill(step, slot.samples.data());
  waited_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return slot.samples.data();
}

void ReadAhead::release() {
  {
    const std::lock_guard lock(mutex_);
    if (taken_ != 0) slot_of(taken_).step = 0;
    taken_ = 0;
  }
  changed_.notify_all();
}

}  // namespace piper::data
