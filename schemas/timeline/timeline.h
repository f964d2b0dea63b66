// Plays a bundle: when each instruction begins and ends with unit costs, with the times that a run of it measured and
// links of a stated speed, or with the prices of a machine (priced.h). Used by piperc for what it says of a bundle, by
// `piper-plan show` for its picture and by `piper-plan simulate`. Needs a bundle that verify() accepts. With unit costs
// and measured times every stream has a processor of its own, so a step is the plan's critical path: no run on fewer
// processors is shorter at these costs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/kernel_times.h"
#include "schemas/plan/plan.h"
#include "schemas/timeline/kinds.h"

namespace piper::timeline {

// Time of one pass of a stage (stages.h); a backward in two halves costs half of it each. The pieces of a stage share
// its time evenly. Other runs cost 0.
struct Costs {
  double forward = 1, backward = 2;
};

// What messages take beside the work of their ends, as `piper-run --link-delay` (runtime/hal/link_delay.h): every rank
// has a port out and a port in.
struct Link {
  double latency_us = 0, bytes_per_second = 0;  // of a port; 0 bytes/s: any size takes the latency alone
};

// Microseconds of each instruction, [loaded rank][instruction], and the links between ranks.
struct Measured {
  std::vector<std::vector<double>> cost_us;
  std::vector<std::vector<double>> begin_us = {}, end_us = {};  // when the run did it, of one step: at least 0
  Link link = {};
};
// Reads what `piper-run --profile` wrote of this bundle: cost_us is the time that an instruction's thread computed. A
// step begins when the last rank comes to it; what others do before that goes on while the step in front still does,
// and counts as done at 0. An error names the line that does not fit, or that a rank is missing.
Result<Measured> read_profile(const plan::Bundle& bundle, const std::string& path);
// What `piper-run --kernel-times` waits for: the times of a table for each kernel call, nothing for the rest. An error
// names a call that the table lacks.
Result<Measured> times_by_table(const plan::Bundle& bundle, const plan::KernelTimes& times);

struct Span {
  int32_t instruction = -1;
  double begin = 0, end = 0;
};

enum class Kind : uint8_t {  // in the order of plan::Action
  kRun,
  kSend,
  kRecv,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kRecord,
  kWait,
  kUpdate,
};
// Whether an instruction of this kind keeps the device's arithmetic busy, unlike messages, events and waits.
constexpr bool computes(Kind kind) { return kind == Kind::kRun || kind == Kind::kUpdate; }
// An instruction's time on its stream: from when the stream came to it to when the stream goes on. Of a send, a
// receive, a collective and a wait it holds the time in which the others were not there yet.
struct Activity {
  Kind kind = Kind::kRun;
  int32_t stream = 0;  // index into RankPlan::streams
  double begin = 0, end = 0;
};

struct TransferEnd {
  int32_t plan = -1;  // index into Bundle::ranks
  int32_t instruction = -1;
};
// One message, or one collective. It begins when the last of its ends has come.
struct Transfer {
  double begin = 0, end = 0;
  int64_t bytes = 0;   // that the first of its ends sends
  uint32_t first = 0;  // its ends are Timeline::ends [first, first + count)
  uint32_t count = 0;  // of a message 2: the sender, then the receiver
};

struct Timeline {
  std::vector<std::vector<Span>> spans;           // per loaded rank: its chunk runs, in the order of their ends
  std::vector<std::vector<Activity>> activities;  // [loaded rank][instruction]
  std::vector<Transfer> transfers;                // sorted by their first end: loaded rank, then instruction
  std::vector<TransferEnd> ends;
  double step = 0;  // end of the last instruction

  std::span<const TransferEnd> ends_of(const Transfer& transfer) const {
    return {ends.data() + transfer.first, transfer.count};
  }
};
// The part of the step in which a loaded rank runs nothing, 0 to 1; runs on two streams at once count as busy twice.
double idle_share(const Timeline& timeline, size_t plan);
// The mean of all loaded ranks' idle shares; of a bundle of kinds, of all ranks that they stand for.
double bubble(const Timeline& timeline);
double bubble(const Kinds& kinds, const Timeline& timeline);

Result<Timeline> simulate(const plan::Bundle& bundle, const Costs& costs);
Timeline simulate(const Kinds& kinds, const Costs& costs);  // of kinds.bundle
// In microseconds. Spans are all runs and updates.
Result<Timeline> simulate_times(const plan::Bundle& bundle, const Measured& measured);

}  // namespace piper::timeline
