// The samples of a rank's next steps, read by a thread of its own while the rank computes. It changes when bytes are
// read and never which: a step gets what DataSource::fill() writes for it. Whatever stops the reading of a step (bytes
// that are gone, an exception) is met again by the thread that takes the step, which then reads for itself; so an error
// comes where it would come without this.
#pragma once

#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/data/data_source.h"
#include "runtime/trace/ring_writer.h"
#include "schemas/plan/read_ahead.h"

namespace piper::data {

class ReadAhead {
 public:
  // What a rank reads of every step: samples [first, first + count) of an input.
  struct Part {
    size_t input = 0;  // of the manifest
    int64_t first = 0, count = 0, bytes = 0;
  };
  // Steps [first, last] of the data; none where last < first. `source` outlives it. `track`: records what is read.
  ReadAhead(const DataSource& source, std::vector<Part> parts, int64_t first, int64_t last,
            const trace::RingTrack& track = {});
  // Ends within one step's reading.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The samples of `step`, part after part; waits until they are read. Every step once, in their order, by one thread;
  // valid until release(), after which the memory serves a later step.
  const std::byte* take(int64_t step);
  void release();

  // For all steps that are read ahead.
  int64_t bytes() const { return plan::kStepsReadAhead * step_bytes_; }
  // How long the last take() waited or read.
  double waited_s() const { return waited_s_; }

 private:
  struct Slot {
    int64_t step = 0;  // that it holds, 0: none
    bool whole = false;
    std::vector<std::byte> samples;
  };
  Slot& slot_of(int64_t step) { return slots_[static_cast<size_t>(step % plan::kStepsReadAhead)]; }
  void fill(int64_t step, std::byte* to) const;
  void read_steps();

  const DataSource& source_;
  const std::vector<Part> parts_;
  const int64_t first_, last_;
  const trace::RingTrack track_;
  int64_t step_bytes_ = 0;
  double waited_s_ = 0;
  int64_t taken_ = 0;  // the step between take() and release()
  std::array<Slot, plan::kStepsReadAhead> slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace piper::data
