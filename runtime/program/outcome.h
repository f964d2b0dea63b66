// What a process says at its end, and its exit status.
#pragma once

#include "runtime/exec/session/session.h"
#include "runtime/hal/control_channel.h"

namespace piper::program {

// On standard error, unless it was reported already.
void print_error(const Error& error);

// 0 where every rank could read what it needs, else the exit status; rank 0 prints the first failure that it learns of.
// Rank 0 may prove the bundle for much longer than the others read.
Result<int> all_ready(const Status& mine, hal::ControlChannel& control, const hal::WaitControl& wait);

// For a run that a signal ended at once.
int signal_status(const exec::Session& session);

// After the ranks of this process have ended: the exit status, having printed what is to be said. `quiet`:
// of a failure or a signal another process reports.
int conclude(exec::Session& session, const Status& failure, bool quiet);

}  // namespace piper::program
