// What a rank shows to whoever watches it: its status page, where the launcher gave one. Written by the rank's own
// thread without a system call.
#pragma once

#include "runtime/checkpoint/checkpointer.h"
#include "runtime/exec/session/reporter.h"
#include "runtime/exec/session/session.h"
#include "schemas/live/page.h"

namespace piper::exec {

class StatusReport {
 public:
  // A page that cannot be had is no reason not to train: one line on standard error says so. `session` outlives it.
  StatusReport(const Session& session, int32_t rank);

  void enter(live::RankState state);
  // After each step. `reporter`, `checkpointer`: nullptr where the rank has none. `seconds`: the step took.
  void step(int64_t step, double seconds, const Reporter* reporter, checkpoint::Checkpointer* checkpointer);
  // What has been committed by now.
  void committed(checkpoint::Checkpointer& checkpointer);

 private:
  const Session& session_;
  live::Page page_;
  live::RankStatus status_;
};

}  // namespace piper::exec
