#include "launcher/daemon/job_view.h"

#include <algorithm>
#include <cmath>

namespace piper::launcher {

namespace {

void add(JobView& view, const live::RankStatus& rank) {
  view.steps = std::max(view.steps, rank.steps);
  view.checkpoint_step = std::max(view.checkpoint_step, rank.checkpoint_step);
  view.checkpoint_s = std::max(view.checkpoint_s, rank.checkpoint_s);
  view.skipped = std::max(view.skipped, rank.skipped);
  view.progress_ms = std::max(view.progress_ms.value_or(0), rank.wall_ns / 1'000'000);
  if (std::isnan(rank.loss)) return;
  view.loss = rank.loss;
  view.tokens_per_s = rank.tokens_per_s;
  view.mfu = rank.mfu;
}

}  // namespace

JobView view_of(const std::string& folder, int32_t ranks) {
  JobView view;
  bool all = true;
  std::optional<int64_t> step;
  live::RankState activity = live::RankState::kDone;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const auto page = live::Page::map(folder + "/pages", rank);
    view.ranks.push_back(page.ok() ? page->read(rank) : std::nullopt);
    const auto& told = view.ranks.back();
    if (!told) {
      all = false;
      continue;
    }
    add(view, *told);
    step = std::min(step.value_or(told->step), told->step);
    // After training come other reasons that keep a rank from its next step; these are shown. Done are all, or it is
    // not.
    if (activity == live::RankState::kDone || (told->state > activity && told->state != live::RankState::kDone))
      activity = told->state;
  }
  if (all) view.activity = activity;
  view.step = all ? step.value_or(0) : 0;
  return view;
}

}  // namespace piper::launcher
