// A rank that fails in one way at one place, as networks, disks and loaders do. Wrapped around the ranks of piper-run
// by piper-run-faulty.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/program/program.h"
#include "schemas/base/status.h"

namespace piper::faults {

enum class Kind : uint8_t {
  kDrop,    // from its `at`-th exchange with sends on, those to the same rank and on the same channel are lost
  kDelay,   // the first message that its `at`-th exchange with receives waits for never comes
  kSlow,    // the `at`-th run of one of its kernels does not end
  kLate,    // that and every later one takes 20 ms longer
  kLoad,    // what it begins with is read `at` s later
  kLoader,  // the samples of step `at` and later ones are not read
  kDisk,    // its `at`-th file of a checkpoint is never on the disk
  kSync,    // that and every later one is there after 1.2 s
  kFull     // no file of a checkpoint has place there
};

struct Fault {
  Kind kind = Kind::kDrop;
  int32_t rank = 0;
  int64_t at = 1;
};

// "drop 1 20": the kind, the rank, `at`.
Result<Fault> read_fault(const std::string& text);

program::WrapRanks with_fault(const Fault& fault);

}  // namespace piper::faults
