// How a checkpoint is committed. All ranks write their shards into a folder of a name that nothing reads; rank 0 writes
// the manifest there and gives the folder its final name. Whatever fails on the way, on any rank, fails the attempt:
// its files are removed and the next attempt writes to new names, since a file whose fsync has failed tells nothing
// about what is on the disk.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "runtime/checkpoint/storage.h"
#include "runtime/hal/control_channel.h"
#include "schemas/checkpoint/manifest.h"

namespace piper::checkpoint {

struct WriterOptions {
  std::string run;            // id, in the names of folders; the same on every rank
  int64_t keep = 0;           // checkpoints kept; 0: all
  std::set<int64_t> damaged;  // steps that are known to be damaged: left alone, not counted
  std::string parent;         // digest of the checkpoint that the run goes on from
};

// Leaves of earlier runs: folders in progress, and those that were to be removed. By the owner, before the first write.
void remove_leavings(Storage& storage);

class CheckpointWriter {
 public:
  // `storage` and `control` outlive it.
  CheckpointWriter(Storage& storage, hal::ControlChannel& control, WriterOptions options)
      : storage_(storage), control_(control), options_(std::move(options)) {}

  // Collective. `manifest`: its files have a name and a size, in the order of `file` of parts; the rest of them is
  // filled in. `shard`: this rank's file, whole; empty `name`: it has none. Checkpoints beyond `keep` are removed
  // afterwards. Those of this step and later ones belong to another line of the run: they are renamed. R0701: three
  // attempts failed, the same message on every rank; what was committed before is untouched.
  Status write(Manifest manifest, const std::string& name, std::string_view shard, const hal::WaitControl& wait);

 private:
  // Empty: committed. Else why not, on every rank; a Status: the ranks did not meet.
  Result<std::string> attempt(Manifest& manifest, const std::string& folder, const std::string& name,
                              std::string_view shard, const hal::WaitControl& wait);
  std::string commit(Manifest& manifest, const std::string& folder, const std::vector<std::string>& records);
  std::string write_file(const std::string& path, std::string_view bytes);
  std::string give_name(const std::string& folder, int64_t step);
  void remove_old(int64_t step);

  Storage& storage_;
  hal::ControlChannel& control_;
  WriterOptions options_;
};

}  // namespace piper::checkpoint
