// What piperd keeps on disk, so that its jobs survive it: a folder that one daemon has at a time.
//
//   LOCK                  held while a daemon lives
//   socket                piper-launch talks to it
//   daemon.json           counters, the next job's number, whether it is drained
//   jobs/000001/job.json  one folder a job: also its log, status pages and incidents
//
// A file is replaced as a whole, and is on the disk before a caller goes on: a power cut leaves the old one or the new.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launcher/daemon/job.h"
#include "schemas/base/status.h"

namespace piper::launcher {

// Numbers of the daemon, over all its lives.
struct DaemonRecord {
  int64_t next_job = 1;
  bool draining = false;
  std::array<int64_t, kNumJobStates> ended{};  // jobs, by the state that they ended in
  int64_t restarts = 0, incidents = 0;         // of all jobs
};

class StateFolder {
 public:
  // Makes the folder where there is none. L0133: it belongs to another user, others can look into it, a daemon has it
  // already, or the system refuses.
  static Result<StateFolder> open(const std::string& path);
  StateFolder(StateFolder&& other) noexcept;
  StateFolder& operator=(StateFolder&&) = delete;
  ~StateFolder();

  // The jobs by rising number. `note` gets each folder that holds none, which is left where it is.
  Result<std::vector<Job>> load_jobs(const std::function<void(const std::string&)>& note) const;
  Result<DaemonRecord> load_record() const;  // L0133; a new one where there is none
  // L0133: the disk takes nothing.
  Status save(const Job& job) const;  // its folder is made where there is none
  Status save(const DaemonRecord& record) const;
  Status remove(int64_t job) const;

  std::string socket() const { return path_ + "/socket"; }
  std::string folder_of(int64_t job) const;
  const std::string& path() const { return path_; }

 private:
  StateFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  std::string path_;
  int lock_;
};

// Where a daemon of this user has it on this machine, unless it is given: $PIPERD_STATE, else
// $XDG_STATE_HOME/piperd/HOST, else ~/.local/state/piperd/HOST. "": there is no home.
std::string default_state_folder();

// Replaces `path` for good by a file that its owner alone reads. L0133.
Status write_durably(const std::string& path, const std::string& text);

}  // namespace piper::launcher
