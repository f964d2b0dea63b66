#include "schemas/timeline/measured_timeline.h"

#include <algorithm>

namespace piper::timeline {

Result<Timeline> measured_timeline(const plan::Bundle& bundle, const Measured& measured) {
  PIPER_ASSIGN(Timeline timeline, simulate(bundle, {}));
  timeline.step = 0;
  for (size_t p = 0; p < bundle.ranks.size(); ++p) {
    timeline.spans[p].clear();
    for (size_t i = 0; i < timeline.activities[p].size(); ++i) {
      Activity& activity = timeline.activities[p][i];
      activity.begin = measured.begin_us[p][i];
      activity.end = measured.end_us[p][i];
      timeline.step = std::max(timeline.step, activity.end);
      if (activity.kind == Kind::kRun || activity.kind == Kind::kUpdate)
        timeline.spans[p].push_back({static_cast<int32_t>(i), activity.begin, activity.end});
    }
    std::stable_sort(timeline.spans[p].begin(), timeline.spans[p].end(),
                     [](const Span& a, const Span& b) { return a.end < b.end; });
  }
  for (Transfer& transfer : timeline.transfers) {
    transfer.begin = transfer.end = 0;
    for (const TransferEnd& end : timeline.ends_of(transfer)) {
      const Activity& activity =
          timeline.activities[static_cast<size_t>(end.plan)][static_cast<size_t>(end.instruction)];
      transfer.begin = std::max(transfer.begin, activity.begin);
      transfer.end = std::max(transfer.end, activity.end);
    }
  }
  return timeline;
}

}  // namespace piper::timeline
