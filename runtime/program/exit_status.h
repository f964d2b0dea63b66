// What piper-run's process ends with: docs/stopping.md has the table for users.
#pragma once

#include <string>

namespace piper::program {

enum Exit : int {
  kDone = 0,
  kRefused = 1,      // before the first step
  kCommandLine = 2,  // is wrong
  kFailed = 3,       // later, or the log is incomplete
  kBug = 70,         // of piper-run
  kStorage = 74,     // a checkpoint could not be written
  kStopped = 75,     // on request, a checkpoint is committed: start it again
  kPeer = 76,        // another rank does not answer, or the way to it failed
  kNotFinite = 82,   // the loss or a parameter is no number, or replicas differ
  kNoCheckpoint = 83,
  kOtherTraining = 84,  // the checkpoint is of another model, optimizer or data set
  kTerminated = 143     // on request, without a checkpoint
};

// For a failure that has an exit status of its own; else `other`.
inline int exit_of(const std::string& code, int other) {
  if (code == "bug") return kBug;
  if (code == "R0302" || code == "R0303") return kPeer;
  if (code == "R0701") return kStorage;
  if (code == "R0702") return kNoCheckpoint;
  if (code == "R0703") return kOtherTraining;
  if (code == "R0801" || code == "R0811") return kNotFinite;
  return other;
}

}  // namespace piper::program
