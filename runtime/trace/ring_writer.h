// Where the threads of a rank are, written to its ring (schemas/live/ring_layout.h) as they go: a clock reading and a
// few stores an event, no system call, no lock. Used by what runs instructions, reads samples and writes checkpoints;
// read by piper-launch, by piper-plan whyhang, and on SIGQUIT.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "schemas/base/status.h"
#include "schemas/live/ring_layout.h"

namespace piper::trace {

// For one thread. Copies write to the same place; one without a ring writes nothing.
class RingTrack {
 public:
  RingTrack() = default;
  RingTrack(uint64_t* words, uint64_t* events, uint64_t capacity)
      : written_(words + static_cast<size_t>(live::TrackWord::kWritten)),
        exchange_(words + static_cast<size_t>(live::TrackWord::kExchange)),
        events_(events),
        mask_(capacity - 1) {}

  static int64_t now_ns() {
    timespec now{};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
  }
  void event(live::EventKind kind, int64_t step) const { event(kind, step, 0); }
  // A stream is about to execute instruction `index` of the plan; -1: it has executed all.
  void instruction(int64_t step, bool evaluation, bool computes, uint64_t batch, int32_t index) const {
    event(index < 0 ? live::EventKind::kStreamDone : live::EventKind::kInstruction, step,
          live::pack_what({}, evaluation, computes, batch, index < 0 ? 0 : index));
  }

  // Events so far. Of a track of a ring, as the next one.
  uint64_t written() const { return std::atomic_ref(*written_).load(std::memory_order_relaxed); }
  // Inside of the instruction that began last: live::pack_exchange() of its exchange `number`.
  void exchange(uint64_t number, bool waits, bool receives, int32_t peer) const {
    std::atomic_ref(*exchange_)
        .store(live::pack_exchange(written(), number, waits, receives, peer), std::memory_order_relaxed);
  }

 private:
  void event(live::EventKind kind, int64_t step, uint64_t rest) const {
    if (written_ == nullptr) return;
    const uint64_t number = std::atomic_ref(*written_).load(std::memory_order_relaxed);
    uint64_t* const event = events_ + (number & mask_) * live::kEventWords;
    put(event, live::EventWord::kTime, static_cast<uint64_t>(now_ns()));
    put(event, live::EventWord::kStep, static_cast<uint64_t>(step));
    put(event, live::EventWord::kWhat, rest | static_cast<uint64_t>(kind));
    std::atomic_ref(*written_).store(number + 1, std::memory_order_release);
  }
  static void put(uint64_t* event, live::EventWord word, uint64_t value) {
    std::atomic_ref(event[static_cast<size_t>(word)]).store(value, std::memory_order_relaxed);
  }

  uint64_t* written_ = nullptr;
  uint64_t* exchange_ = nullptr;
  uint64_t* events_ = nullptr;
  uint64_t mask_ = 0;
};

class RingWriter {
 public:
  struct Owner {
    int32_t rank = 0, world_size = 1;
    std::string digest;   // of the bundle, 64 hexadecimal digits
    int32_t streams = 0;  // of the plan
  };
  // A file of `folder`, which is made, in the place of one of that name, or memory of the process where `folder` is
  // empty. R0912: it cannot be made.
  static Result<std::unique_ptr<RingWriter>> make(const std::string& folder, const Owner& owner);
  // The file stays.
  ~RingWriter();
  RingWriter(const RingWriter&) = delete;
  RingWriter& operator=(const RingWriter&) = delete;

  RingTrack stream(int32_t index) const { return track(static_cast<uint64_t>(index)); }
  RingTrack host_track() const { return host_; }
  RingTrack loader() const { return track(streams_ + 1); }
  RingTrack writer() const { return track(streams_ + 2); }
  // What the rank's own thread does from now on. It alone calls this; the section that ends is counted.
  void host(live::EventKind kind, int64_t step);

  // Where it is read; of memory of the process, while that lives.
  const std::string& path() const { return path_; }

 private:
  RingWriter() = default;
  RingTrack track(uint64_t number) const;
  uint64_t* header(live::HeaderWord word, uint64_t further = 0) const {
    return words_ + static_cast<size_t>(word) + further;
  }
  void fill(const Owner& owner);

  std::string path_;
  int file_ = -1;  // of memory of the process
  uint64_t* words_ = nullptr;
  uint64_t bytes_ = 0, streams_ = 0, tracks_ = 0, capacity_ = 0;
  RingTrack host_;
  live::Section section_ = live::Section::kStart;
  int64_t step_ = -1, since_ns_ = 0;
};

}  // namespace piper::trace
