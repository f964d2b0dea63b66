#include "tools/piper_plan/perfetto_trace.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "schemas/perfetto/trace_writer.h"
#include "schemas/plan/actions.h"
#include "schemas/plan/provenance_text.h"
#include "tools/piper_plan/commands.h"
#include "tools/piper_plan/cut_collectives.h"
#include "tools/piper_plan/play_bundle.h"
#include "tools/piper_plan/subject.h"

namespace piper::tools {
namespace {

using namespace plan;
using timeline::Kind;
using timeline::Measured;
using timeline::Timeline;

class StepTrace {
 public:
  explicit StepTrace(const StepOfBundle& step)
      : bundle_(step.bundle),
        timeline_(step.timeline),
        measured_(step.measured ? &*step.measured : nullptr),
        of_a_unit_(step.microseconds ? 1e3 : 1e6) {
    for (const auto& plan : bundle_.ranks) flows_.emplace_back(plan.instructions.size());
    for (size_t t = 0; t < timeline_.transfers.size(); ++t) {
      const auto ends = timeline_.ends_of(timeline_.transfers[t]);
      for (size_t e = 0; ends.size() > 1 && e < ends.size(); ++e)
        flows_[static_cast<size_t>(ends[e].plan)][static_cast<size_t>(ends[e].instruction)] = {t + 1,
                                                                                               e + 1 == ends.size()};
    }
  }

  std::string write() {
    for (size_t p = 0; p < bundle_.ranks.size(); ++p) rank(p, false);
    for (size_t p = 0; measured_ != nullptr && p < bundle_.ranks.size(); ++p) rank(p, true);
    return writer_.take();
  }

 private:
  struct Times {
    double begin = 0, end = 0;
  };

  int64_t nanoseconds(double time) const { return std::llround(time * of_a_unit_); }
  Times times_of(size_t p, size_t i, bool measured) const {
    if (measured) return {measured_->begin_us[p][i], measured_->end_us[p][i]};
    return {timeline_.activities[p][i].begin, timeline_.activities[p][i].end};
  }

  void rank(size_t p, bool measured) {
    const RankPlan& plan = bundle_.ranks[p];
    const uint64_t process = writer_.process(
        ++processes_, "rank " + std::to_string(plan.rank) + place_text(plan.rank) + (measured ? ", measured" : ""));
    std::vector<uint64_t> streams;
    for (const auto& stream : plan.streams) streams.push_back(writer_.track(process, stream.name));
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const auto& activity = timeline_.activities[p][i];
      const Times times = times_of(p, i, measured);
      if (activity.kind == Kind::kRecord || (activity.kind == Kind::kWait && times.begin == times.end)) continue;
      slice(p, i, streams[static_cast<size_t>(activity.stream)], times, measured);
    }
  }

  // ", place 1 of tp [2, 3]" of a rank that shares samples.
  std::string place_text(int32_t rank) const {
    for (const plan::Cut& cut : bundle_.manifest.cuts)
      for (const std::vector<int32_t>& group : cut.groups)
        if (const auto at = std::find(group.begin(), group.end(), rank); at != group.end())
          return ", place " + std::to_string(at - group.begin()) + " of " + cut.name + " " +
                 groups_text(plan::Cut{cut.name, {group}});
    return "";
  }

  void slice(size_t p, size_t i, uint64_t track, const Times& times, bool measured) {
    const RankPlan& plan = bundle_.ranks[p];
    const Instruction& instruction = plan.instructions[i];
    const Subject subject = subject_of(plan, instruction.action);
    const bool program = subject.program >= 0;
    std::vector<perfetto::Note> notes{{.name = "instruction", .number = static_cast<int64_t>(i)}};
    if (subject.bytes > 0) notes.push_back({.name = "bytes", .number = subject.bytes});
    if (program)
      notes.push_back({.name = "program", .text = bundle_.programs[static_cast<size_t>(subject.program)].name});
    if (instruction.provenance >= 0)
      notes.push_back(
          {.name = "strategy", .text = whole_text(bundle_.provenance[static_cast<size_t>(instruction.provenance)])});
    perfetto::Flow flow = flows_[p][i];
    // Simulated and measured flows have different numbers.
    if (measured && flow.id > 0) flow.id += timeline_.transfers.size();
    writer_.slice(track, nanoseconds(times.begin), nanoseconds(times.end),
                  (program ? "" : std::string(plan::kActionNames[instruction.action.index()]) + " ") + subject.name,
                  flow, notes);
  }

  const Bundle& bundle_;
  const Timeline& timeline_;
  const Measured* measured_;
  double of_a_unit_;                                // nanoseconds
  std::vector<std::vector<perfetto::Flow>> flows_;  // [loaded rank][instruction]
  perfetto::TraceWriter writer_;
  int32_t processes_ = 0;
};

}  // namespace

std::string perfetto_trace(const StepOfBundle& step) { return StepTrace(step).write(); }

Result<std::string> trace_bundle(const std::string& directory, const StepTimes& times) {
  PIPER_ASSIGN(const StepOfBundle played, play_bundle(directory, times));
  return perfetto_trace(played);
}

}  // namespace piper::tools
