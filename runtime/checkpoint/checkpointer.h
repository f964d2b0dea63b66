// Saves a rank's part of the training's state while training goes on: at the end of a step it is copied to the host, a
// thread of its own writes the copy. What each rank saves is agreed once, at load: of elements that several ranks own,
// the lowest one's.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/checkpoint/finite_state.h"
#include "runtime/checkpoint/training_state.h"
#include "runtime/checkpoint/write_checkpoint.h"
#include "runtime/hal/control_channel.h"
#include "runtime/hal/device.h"

namespace piper::checkpoint {

// For a run, the same on every rank.
struct RunIdentity {
  std::string bundle_digest;
  uint64_t seed = 0;
  DataIdentity data;
};

class Checkpointer {
 public:
  // Collective on `control`; afterwards only the writing threads use it. All but the results outlive it. R0503: parts
  // that no rank owns; R0405: no memory for the copy.
  static Result<std::unique_ptr<Checkpointer>> make(const plan::Manifest& manifest, const plan::RankPlan& plan,
                                                    const std::vector<hal::Address>& buffers, hal::Device& device,
                                                    hal::ControlChannel& control, const hal::WaitControl& wait,
                                                    Storage& storage, const RunIdentity& run, WriterOptions options);
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Before the first step of a run that does some: CheckpointWriter::begin_line().
  void begin_line() { writer_.begin_line(); }
  // At the end of a run that does none: CheckpointWriter::remove_leavings().
  void remove_leavings() { writer_.remove_leavings(); }
  // After a step; nothing may be under way on the device. Waits until the checkpoint before is written, copies, and
  // returns: writing goes on. R0701 of the one before.
  Status save(int64_t step, int64_t samples);
  // The same of a step that is not worth saving: takes part, and keeps the ranks that call save() from committing it.
  Status refuse(int64_t step);
  // Until what was saved is committed. R0701.
  Status finish();
  // The first state that was refused because it is not finite: its step, 0: there was none. Any thread.
  struct NotFinite {
    int64_t step = 0;
    std::string what;  // of FiniteState::fault()
  };
  NotFinite not_finite();
  // The newest step that is committed, 0: none. Any thread.
  int64_t committed_step();
  // What the last commit took, from the end of its step; 0: there was none. Any thread.
  double write_seconds();
  // A failure that is known by now: R0701. Does not wait.
  Status failure();
  // The bytes of this rank's copy, and of all ranks' copies.
  int64_t bytes() const { return bytes_; }
  int64_t total_bytes() const { return total_bytes_; }

 private:
  struct Copy {
    hal::Address from;
    int64_t offset = 0, bytes = 0;  // in the shard
    int64_t tensor = 0;             // of the manifest
  };
  Checkpointer(Storage& storage, hal::ControlChannel& control, WriterOptions options, hal::Device& device,
               const hal::WaitControl& wait)
      : device_(device),
        wait_(wait),
        finite_(options.finite),
        count_(options.writing),
        writer_(storage, control, options),
        track_(options.track) {}
  Status lay_out(const plan::Manifest& manifest, const plan::RankPlan& plan, const std::vector<hal::Address>& buffers,
                 hal::ControlChannel& control);
  void begin_writing(int64_t step, int64_t samples, bool refuses);
  // What keeps the copy from being saved; "": nothing.
  std::string fault_of_copy();
  Status write(std::string_view shard);
  void work();

  hal::Device& device_;
  hal::WaitControl wait_;
  FiniteState* const finite_;      // nullptr: all are saved
  std::atomic<int>* const count_;  // of what is being written
  CheckpointWriter writer_;
  Manifest manifest_;  // of the next one; the same each time, except digests
  std::string file_;   // this rank's; empty: it owns nothing
  std::vector<Copy> copies_;
  std::unique_ptr<hal::HostMemory> copy_;  // the shard, its header in front
  int64_t bytes_ = 0, total_bytes_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  trace::RingTrack track_;
  bool writing_ = false, refuses_ = false, ends_ = false;
  NotFinite not_finite_;
  int64_t committed_ = 0;
  std::chrono::steady_clock::time_point saved_at_;
  double write_s_ = 0;
  Status failure_;
  std::thread thread_;
};

}  // namespace piper::checkpoint
