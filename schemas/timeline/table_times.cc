#include "schemas/plan/actions.h"
#include "schemas/plan/call_key.h"
#include "schemas/timeline/timeline.h"

namespace piper::timeline {

using namespace plan;

Result<Measured> times_by_table(const Bundle& bundle, const KernelTimes& times) {
  std::vector<double> of_program;
  for (const Program& program : bundle.programs) {
    double us = 0;
    for (const KernelCall& call : program.calls) {
      const std::string key = call_key(call);
      const auto found = times.find(key);
      if (found == times.end()) return Status::failure("", "the table has no time of the call " + key);
      us += found->second;
    }
    of_program.push_back(us);
  }
  Measured measured;
  for (const RankPlan& plan : bundle.ranks) {
    std::vector<double>& cost = measured.cost_us.emplace_back(plan.instructions.size());
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const int32_t program = launch_of(plan.instructions[i].action).program;
      if (program >= 0) cost[i] = of_program[static_cast<size_t>(program)];
    }
  }
  return measured;
}

}  // namespace piper::timeline
