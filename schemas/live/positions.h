// Where the threads of all ranks are, by their newest events, and who is before what. Used by run_threads.h and
// ring_text.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/live/ring.h"
#include "schemas/plan/plan.h"

namespace piper::live {

// One submission of a plan's instructions: a step, or a batch of the evaluation after it. In the order of the run.
struct Submission {
  int64_t step = 0;
  bool evaluation = false;
  int64_t batch = 0;
  friend auto operator<=>(const Submission&, const Submission&) = default;
};

inline Submission submission_of(const RingEvent& event) { return {event.step, event.evaluation, event.batch}; }

// How far a stream is with an instruction of a submission.
enum class Reached : uint8_t { kBefore, kAt, kBehind };
Reached reached(const RingEvent& newest, const Submission& submission, int32_t instruction);

// The newest event of a track; nullptr: it has none.
const RingEvent* newest(const Ring& ring, TrackKind kind, int32_t index = 0);
const RingTrack* track_of(const Ring& ring, TrackKind kind, int32_t index = 0);

// The plan of the bundle, or of its evaluation, that a rank executes; nullptr: there is none.
const plan::Bundle* bundle_of(const plan::Bundle& bundle, bool evaluation);
const plan::RankPlan* plan_of(const plan::Bundle& bundle, int32_t rank);

// "instr 14, run c1.F with "c1.F m2" (place at pp2.yaml:5:3)". The instruction must be one of the plan.
std::string instruction_text(const plan::Bundle& bundle, const plan::RankPlan& plan, int32_t instruction);
// The strategy's line of an instruction; empty: unknown.
std::string origin_text(const plan::Bundle& bundle, const plan::RankPlan& plan, int32_t instruction);
// "waits for the samples of step 12".
std::string state_text(const RingEvent& event);
// "12.3 s".
std::string seconds_text(int64_t ns);

}  // namespace piper::live
