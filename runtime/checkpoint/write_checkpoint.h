// How a checkpoint is committed. All ranks write their shards into a folder of a name that nothing reads; rank 0 writes
// the manifest there and gives the folder its final name. Whatever fails on the way, on any rank, fails the attempt:
// its files are removed and the next attempt writes to new names, since a file whose fsync has failed says nothing
// about what is on the disk.
#pragma once

#include <atomic>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/checkpoint/storage.h"
#include "runtime/hal/control_channel.h"
#include "runtime/trace/ring_writer.h"
#include "schemas/checkpoint/manifest.h"

namespace piper::checkpoint {

class FiniteState;  // finite_state.h

struct WriterOptions {
  std::string run;                      // id, in the names of folders; the same on every rank
  int64_t keep = 0;                     // checkpoints kept; 0: all
  std::set<int64_t> damaged;            // steps that are known to be damaged: left alone, not counted
  std::string parent;                   // digest of the checkpoint that the run goes on from
  int64_t from = 0;                     // its step; 0: the run began at step 1
  trace::RingTrack track;               // records what is written
  FiniteState* finite = nullptr;        // a state with which it finds fault is refused; nullptr: none is
  std::atomic<int>* writing = nullptr;  // counts what is being written; nullptr: nobody wants to know
};

// By the owner, before it looks for a checkpoint. What was replaced by a checkpoint that never got its name has its own
// name again. Folders in progress, and those that were to be removed, are.
void clear_leavings(Storage& storage);

class CheckpointWriter {
 public:
  // `storage` and `control` outlive it.
  CheckpointWriter(Storage& storage, hal::ControlChannel& control, WriterOptions options)
      : storage_(storage), control_(control), options_(std::move(options)) {}

  // By every rank, before the first step. Checkpoints that are later than what the run goes on from belong to
  // another line of the run: they are set aside, so that a run that is started again does not go on from them. What
  // fails of it the first commit does again.
  void begin_line();
  // By every rank of a run that does no steps: what a run that was killed right after its last commit has left beyond
  // `keep`. Of one that does steps, its first commit removes that.
  void remove_leavings() {
    if (control_.rank() == 0) remove_old(options_.from);
  }
  // Collective. `manifest`: its files have a name and a size, in the order of `file` of parts; the rest of them is
  // filled in. `shard`: this rank's file, whole; empty `name`: it has none. Checkpoints beyond `keep` are removed
  // afterwards, and of those set aside, too. One of this step is replaced. R0701: three attempts failed, the same
  // message on every rank; what was committed before is untouched.
  Status write(Manifest manifest, const std::string& name, std::string_view shard, const hal::WaitControl& wait);
  // The same by a rank that keeps the step from being committed: the others call either. Nothing is left of it, and
  // that is no failure.
  Status refuse(Manifest manifest, const hal::WaitControl& wait);
  // Whether a rank has refused the last one.
  bool refused() const { return refused_; }

 private:
  // `shard`: nothing, where this rank refuses.
  Status write_or_refuse(Manifest manifest, const std::string& name, std::optional<std::string_view> shard,
                         const hal::WaitControl& wait);
  // Empty: committed. Else why not, on every rank; a Status: the ranks did not meet.
  Result<std::string> attempt(Manifest& manifest, const std::string& folder, const std::string& name,
                              std::optional<std::string_view> shard, const hal::WaitControl& wait);
  std::string commit(Manifest& manifest, const std::string& folder, const std::vector<std::string>& records);
  std::string write_file(const std::string& path, std::string_view bytes);
  bool of_other_line(int64_t step) const { return step > options_.from && options_.damaged.count(step) == 0; }
  std::string set_aside(const std::string& folder, int64_t step);
  std::string give_name(const std::string& folder, int64_t step);
  void remove_old(int64_t step);
  void remove_beyond(std::vector<std::pair<int64_t, std::string>> folders, size_t keep);

  Storage& storage_;
  hal::ControlChannel& control_;
  WriterOptions options_;
  bool alone_ = false;  // no other line of the run is in the folder
  bool refused_ = false;
};

}  // namespace piper::checkpoint
