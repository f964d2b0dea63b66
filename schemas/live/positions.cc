#include "schemas/live/positions.h"

#include <algorithm>
#include <cstdio>

#include "schemas/verify/describe.h"

namespace piper::live {

Reached reached(const RingEvent& newest, const Submission& submission, int32_t instruction) {
  const Submission at = submission_of(newest);
  if (at != submission) return at < submission ? Reached::kBefore : Reached::kBehind;
  if (newest.kind == EventKind::kStreamDone || newest.instruction > instruction) return Reached::kBehind;
  return newest.instruction == instruction ? Reached::kAt : Reached::kBefore;
}

const RingTrack* track_of(const Ring& ring, TrackKind kind, int32_t index) {
  const auto found = std::find_if(ring.tracks.begin(), ring.tracks.end(),
                                  [&](const RingTrack& t) { return t.kind == kind && t.index == index; });
  return found == ring.tracks.end() ? nullptr : &*found;
}

const RingEvent* newest(const Ring& ring, TrackKind kind, int32_t index) {
  const RingTrack* const track = track_of(ring, kind, index);
  return track == nullptr || track->events.empty() ? nullptr : &track->events.back();
}

const plan::Bundle* bundle_of(const plan::Bundle& bundle, bool evaluation) {
  if (!evaluation) return &bundle;
  return bundle.evaluation.empty() ? nullptr : &bundle.evaluation.front();
}

const plan::RankPlan* plan_of(const plan::Bundle& bundle, int32_t rank) {
  const auto found =
      std::find_if(bundle.ranks.begin(), bundle.ranks.end(), [&](const plan::RankPlan& p) { return p.rank == rank; });
  return found == bundle.ranks.end() ? nullptr : &*found;
}

std::string origin_text(const plan::Bundle& bundle, const plan::RankPlan& plan, int32_t instruction) {
  const int32_t provenance = plan.instructions.at(static_cast<size_t>(instruction)).provenance;
  if (provenance < 0 || static_cast<size_t>(provenance) >= bundle.provenance.size()) return {};
  return bundle.provenance[static_cast<size_t>(provenance)].text;
}

std::string instruction_text(const plan::Bundle& bundle, const plan::RankPlan& plan, int32_t instruction) {
  const std::string origin = origin_text(bundle, plan, instruction);
  return "instr " + std::to_string(instruction) + ", " +
         verify::describe_action(bundle, plan, plan.instructions.at(static_cast<size_t>(instruction)).action) +
         (origin.empty() ? "" : " (" + origin + ")");
}

std::string state_text(const RingEvent& event) {
  const std::string step = "step " + std::to_string(event.step);
  switch (event.kind) {
    case EventKind::kInstruction: return step + ", instr " + std::to_string(event.instruction);
    case EventKind::kStreamDone: return "done with " + step;
    case EventKind::kStarting: return "starts: reads, loads, connects";
    case EventKind::kData: return "waits for the samples of " + step;
    case EventKind::kStep: return "executes " + step;
    case EventKind::kReport: return "logs " + step;
    case EventKind::kAgree: return "agrees with the other ranks after " + step;
    case EventKind::kSave: return "saves a checkpoint of " + step;
    case EventKind::kEvaluate: return "evaluates after " + step;
    case EventKind::kEnding: return "ends";
    case EventKind::kEnded: return "has ended";
    case EventKind::kRead: return "reads the samples of " + step;
    case EventKind::kWrite: return "writes the checkpoint of " + step;
    case EventKind::kGather: return "waits for the other ranks' part of the checkpoint of " + step;
    case EventKind::kIdle: return "has nothing to do";
  }
  return {};
}

std::string seconds_text(int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(std::max<int64_t>(ns, 0)) / 1e9);
  return text;
}

}  // namespace piper::live
