// What piper-run's process ends with.
#pragma once

#include <string>

namespace piper {

enum Exit : int {
  kDone = 0,
  kRefused = 1,
  kCommandLine = 2,
  kFailed = 3,
  kBug = 70,
  kStorage = 74,
  kNoCheckpoint = 83,
  kOtherTraining = 84
};

// Of a failure that has an exit status of its own; else `other`.
inline int exit_of(const std::string& code, int other) {
  if (code == "R0701") return kStorage;
  if (code == "R0702") return kNoCheckpoint;
  if (code == "R0703") return kOtherTraining;
  return other;
}

}  // namespace piper
