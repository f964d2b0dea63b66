#include "runtime/exec/session/profile_recorder.h"

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/exec/instruction_text.h"
#include "runtime/exec/meeting.h"
#include "runtime/exec/session/lines_of_all_ranks.h"

namespace piper::exec {

ProfileRecorder::ProfileRecorder(const Session& session, const plan::RankPlan& plan, hal::ControlChannel& control,
                                 const hal::WaitControl& wait, Executor& executor)
    : session_(session), plan_(plan), control_(control), wait_(wait), profile_(plan.instructions.size()) {
  executor.set_profile(&profile_);
}

// Times count from when the last rank came to the step: what the others do before that belongs to the end of the step
// before it, and is negative.
Status ProfileRecorder::finish() {
  PIPER_ASSIGN(const auto zero, meeting(control_, hal::patient(wait_)));
  const int64_t mine = (profile_.mean_begin() - zero).count();
  PIPER_ASSIGN(const std::vector<std::string> begins, control_.allgather(std::to_string(mine), hal::patient(wait_)));
  int64_t last = mine;
  for (const std::string& begin : begins) last = std::max<int64_t>(last, std::stoll(begin));
  profile_.count_from(trace::Profile::Clock::duration(last - mine));
  std::string lines;
  for (size_t i = 0; i < plan_.instructions.size(); ++i) {
    if (i > 0) lines += '\n';
    lines += profile_.line({plan_.rank, static_cast<int32_t>(i),
                            plan_.streams.at(static_cast<size_t>(plan_.instructions[i].stream)).name,
                            action_text(*session_.bundle, plan_, static_cast<int32_t>(i))});
  }
  return write_lines_of_all_ranks(session_, control_, wait_, session_.options.profile, lines);
}

}  // namespace piper::exec
