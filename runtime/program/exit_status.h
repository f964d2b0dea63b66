// What piper-run's process ends with.
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
  kNoCheckpoint = 83,
  kOtherTraining = 84  // the checkpoint is of another model, optimizer or data set
};

// Of a failure that has an exit status of its own; else `other`.
inline int exit_of(const std::string& code, int other) {
  if (code == "R0701") return kStorage;
  if (code == "R0702") return kNoCheckpoint;
  if (code == "R0703") return kOtherTraining;
  return other;
}

}  // namespace piper::program
