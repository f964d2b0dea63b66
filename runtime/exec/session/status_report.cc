#include "runtime/exec/session/status_report.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace piper::exec {

StatusReport::StatusReport(const Session& session, int32_t rank) : session_(session) {
  const SessionOptions& options = session.options;
  if (options.status_pages.empty()) return;
  auto page = live::Page::map(options.status_pages, rank);
  if (!page.ok()) {
    std::fprintf(stderr, "piper-run: warning[%s]: rank %d: %s\n", page.error().code.c_str(), rank,
                 page.error().message.c_str());
    return;
  }
  page_ = std::move(page).value();
  status_.rank = rank;
  status_.pid = getpid();
  status_.steps = options.steps;
  status_.restarts = options.restarts;
  if (session.resume != nullptr) status_.step = status_.checkpoint_step = session.resume->manifest().step;
  page_.write(status_);
}

void StatusReport::enter(live::RankState state) {
  status_.state = state;
  page_.write(status_);
}

void StatusReport::step(int64_t step, double seconds, const Reporter* reporter,
                        checkpoint::Checkpointer* checkpointer) {
  status_.state = live::RankState::kTraining;
  status_.step = step;
  status_.tokens_per_s = static_cast<double>(session_.bundle->manifest.batch * session_.data->tokens_per_sample()) /
                         std::max(seconds, 1e-9);
  if (reporter != nullptr) {
    status_.loss = reporter->loss();
    status_.skipped = reporter->skipped();
    status_.mfu = reporter->mfu();
  }
  if (checkpointer != nullptr) return committed(*checkpointer);
  page_.write(status_);
}

void StatusReport::committed(checkpoint::Checkpointer& checkpointer) {
  status_.checkpoint_step = std::max(status_.checkpoint_step, checkpointer.committed_step());
  status_.checkpoint_s = checkpointer.write_seconds();
  page_.write(status_);
}

}  // namespace piper::exec
