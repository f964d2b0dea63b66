// How far a job is, put together from the status pages of its ranks: what piper-launch status and the metrics show.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/live/page.h"

namespace piper::launcher {

struct JobView {
  std::vector<std::optional<live::RankStatus>> ranks;  // by rank; nothing where a rank has not begun to report
  // Of all ranks:
  live::RankState activity = live::RankState::kStarting;
  int64_t step = 0, steps = 0;  // the step that every rank has done
  std::optional<double> loss;   // of the newest step that the reporting rank has done
  double tokens_per_s = 0;      // 0: not known
  double mfu = 0;               // likewise
  int64_t checkpoint_step = 0, skipped = 0;
  double checkpoint_s = 0;
  std::optional<int64_t> progress_ms;  // since 1970: the newest progress of any rank
};

// `folder`: the job's.
JobView view_of(const std::string& folder, int32_t ranks);

}  // namespace piper::launcher
