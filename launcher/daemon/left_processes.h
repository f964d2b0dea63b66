// What is left of a job's processes once its piper-launch has ended, or the daemon before this one has: found by the
// variable that all of them began with, and by a lock that all of them hold.
#pragma once

#include <string>

#include "schemas/base/status.h"

namespace piper::launcher {

// A lock that lasts as long as a process has its descriptor, which children inherit.
class LifeLock {
 public:
  // Takes the one of the job whose folder this is. L0133: the file cannot be had, or a process is left.
  static Result<LifeLock> take(const std::string& job_folder);
  LifeLock(LifeLock&& other) noexcept;
  LifeLock& operator=(LifeLock&&) = delete;
  ~LifeLock();
  int descriptor() const { return descriptor_; }

 private:
  explicit LifeLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

// Kills each process of this user that began with the job's folder in PIPER_JOB, except this one.
void kill_processes_of(const std::string& job_folder);

// Whether no process has the job's lock any more.
bool all_gone(const std::string& job_folder);

}  // namespace piper::launcher
