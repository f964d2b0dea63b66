#include "runtime/exec/session/lines_of_all_ranks.h"

#include <vector>

#include "runtime/trace/step_log.h"

namespace piper::exec {

Status write_lines_of_all_ranks(const Session& session, hal::ControlChannel& control, const hal::WaitControl& wait,
                                const std::string& path, const std::string& lines) {
  PIPER_ASSIGN(const std::vector<std::string> all, control.allgather(lines, hal::patient(wait)));
  if (control.rank() != session.bundle->manifest.reporting_rank) return {};
  PIPER_ASSIGN(trace::StepLog file, trace::StepLog::open(path));
  for (const std::string& text : all)
    if (!text.empty()) PIPER_RETURN_IF_ERROR(file.write(text));
  return {};
}

}  // namespace piper::exec
