// Who waits for whom in a run that does not go on, and who keeps all others waiting: from the rings of its ranks and
// the bundle that they execute. A node is a thread of a rank (a stream, its host, the loader, the writer of
// checkpoints); an edge leads to a thread that has not yet done what the node needs. Whoever is waited for and waits
// for nobody is the culprit: the time that others have waited is no evidence. Used by piper-plan whyhang and by
// piper-launch.
//
// Sends, receives and members of collectives are paired as the verifier pairs them (schemas/verify/match.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/live/ring.h"
#include "schemas/plan/plan.h"

namespace piper::live {

enum class Cause : uint8_t {
  kStopped,  // the process was stopped by a signal or a debugger
  kGone,     // the process ended without saying so
  kMessage,  // all ends of a transfer are there, and it does not come through
  kSlow,     // an instruction has not ended
  kLoader,   // samples are not read
  kDisk,     // a checkpoint or the log is not written, or the process sleeps in the kernel
  kUnseen,   // a rank that has no ring: it runs elsewhere, or has not begun
  kBug,      // nothing of that: of piper or of a library
};
// "stopped process".
const char* cause_name(Cause cause);

struct Culprit {
  Cause cause = Cause::kBug;
  int32_t rank = -1;  // of a message: who sends it, where one is known to
  int32_t peer = -1;  // of a message: who does not get it; -1: none
  int64_t step = 0;
  bool evaluation = false;
  int32_t instruction = -1;  // of the rank's plan; -1: it executes none
  std::string stream;        // of the instruction
  std::string origin;        // the strategy's line of the instruction
  int64_t since_ns = 0;      // of CLOCK_MONOTONIC: its last event
};

struct Hang {
  Culprit culprit;
  std::string message;             // the culprit in one line
  std::vector<std::string> waits;  // who waits for it, nearest first, a line each
};

// What keeps the run from going on at `now_ns`. `rings`: of some or all of the bundle's ranks, each once. R0911: a ring
// is of another bundle or of none of its ranks; errors of verify::match().
Result<Hang> find_culprit(const plan::Bundle& bundle, const std::string& digest, const std::vector<Ring>& rings,
                          int64_t now_ns);

}  // namespace piper::live
