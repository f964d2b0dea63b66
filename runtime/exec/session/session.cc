#include "runtime/exec/session/session.h"

#include <exception>

#include "runtime/exec/session/rank_run.h"
#include "schemas/base/check.h"

namespace piper::exec {

void Session::end_with(Status found) {
  std::lock_guard lock(verdict_mutex);
  if (verdict.ok()) verdict = std::move(found);
}

void run_rank(Session& session, const plan::RankPlan& plan, const MakeBackend& make_backend,
              hal::ControlChannel& control, hal::ControlChannel* checkpoint_control) {
  Status status;
  // After the failure's report: a thread that writes waits for other ranks until it hears of one.
  RankRun run(session, plan, control, checkpoint_control);
  try {
    status = run.run(make_backend);
  } catch (const InternalError& bug) {
    status = Status::failure("bug", bug.what());
  } catch (const std::exception& failure) {
    status = Status::failure("bug", failure.what());
  }
  if (const int64_t committed = run.committed(); committed > 0) session.committed = committed;
  if (status.ok() || hal::is_stopped(status)) return;
  // An executor's failure names the rank already; what all ranks find alike names none.
  if (status.error().code != "R0102") status = std::move(status).with_context("rank " + std::to_string(plan.rank));
  session.stop.raise(std::move(status));
}

}  // namespace piper::exec
