#include "schemas/live/stragglers.h"

#include <algorithm>
#include <cstdio>

#include "schemas/live/positions.h"

namespace piper::live {

namespace {

constexpr size_t kNewestSteps = 64;
constexpr int kLooks = 2;  // a single one may be chance

int64_t median(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Steps of which the ring has all, and how long they took.
std::map<int64_t, int64_t> whole_steps(const Ring& ring) {
  std::map<int64_t, int64_t> begun, whole;
  const RingTrack* const host = track_of(ring, TrackKind::kHost);
  if (host == nullptr) return whole;
  for (const RingEvent& event : host->events) {
    if (event.kind == EventKind::kStep) begun[event.step] = event.time_ns;
    if (event.kind != EventKind::kReport) continue;
    if (const auto found = begun.find(event.step); found != begun.end())
      whole[event.step] = event.time_ns - found->second;
  }
  // For the oldest step that a stream still has, it may have lost events.
  for (const RingTrack& track : ring.tracks)
    if (track.kind == TrackKind::kStream && !track.events.empty() && track.written > track.events.size())
      whole.erase(whole.begin(), whole.upper_bound(track.events.front().step));
  while (whole.size() > kNewestSteps) whole.erase(whole.begin());
  return whole;
}

}  // namespace

Pace pace_of(const Ring& ring) {
  Pace pace{ring.rank, 0, 0, 0};
  const std::map<int64_t, int64_t> steps = whole_steps(ring);
  if (steps.empty()) return pace;
  std::map<int64_t, int64_t> busy;
  for (const auto& [step, ns] : steps) busy[step] = 0;
  for (const RingTrack& track : ring.tracks) {
    if (track.kind != TrackKind::kStream) continue;
    for (size_t e = 0; e + 1 < track.events.size(); ++e) {
      const RingEvent& event = track.events[e];
      const auto of = busy.find(event.step);
      if (of != busy.end() && event.computes && !event.evaluation)
        of->second += std::max<int64_t>(track.events[e + 1].time_ns - event.time_ns, 0);
    }
  }
  std::vector<int64_t> busy_ns, step_ns;
  for (const auto& [step, ns] : steps) {
    busy_ns.push_back(busy[step]);
    step_ns.push_back(ns);
  }
  pace.steps = static_cast<int64_t>(steps.size());
  pace.busy_ns = median(std::move(busy_ns));
  pace.step_ns = median(std::move(step_ns));
  return pace;
}

std::vector<std::string> Stragglers::compare(const std::vector<Ring>& rings) {
  std::vector<Pace> paces;
  std::vector<double> ratios;
  for (const Ring& ring : rings) {
    const Pace pace = pace_of(ring);
    if (pace.steps < kSteps || pace.busy_ns <= 0) continue;
    Known& known = known_[pace.rank];
    known.best_ns = known.best_ns == 0 ? pace.busy_ns : std::min(known.best_ns, pace.busy_ns);
    paces.push_back(pace);
    ratios.push_back(static_cast<double>(pace.busy_ns) / static_cast<double>(known.best_ns));
  }
  std::vector<std::string> lines;
  if (paces.size() < 2) return lines;
  std::vector<double> sorted = ratios;
  std::sort(sorted.begin(), sorted.end());
  const double usual = sorted[(sorted.size() - 1) / 2];
  for (size_t i = 0; i < paces.size(); ++i) {
    const Pace& pace = paces[i];
    Known& known = known_[pace.rank];
    // What the others would not notice is not worth a line.
    const bool matters = 5 * (pace.busy_ns - known.best_ns) > pace.step_ns;
    known.looks = matters && ratios[i] > kSlow * usual ? known.looks + 1 : 0;
    if (known.looks != kLooks) continue;
    char text[160];
    std::snprintf(text, sizeof text, "rank %d is slow: it computes %.3g ms in a step of %.3g ms, %.1f times its best",
                  pace.rank, static_cast<double>(pace.busy_ns) / 1e6, static_cast<double>(pace.step_ns) / 1e6,
                  ratios[i]);
    lines.emplace_back(text);
  }
  return lines;
}

}  // namespace piper::live
