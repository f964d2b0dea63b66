// What `piper-plan report` has to tell: a step as it was predicted and as a run measured it, by rank and by line of the
// strategy. report.cc makes it, report_text.cc prints it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"
#include "schemas/timeline/assess.h"
#include "schemas/timeline/line_costs.h"

namespace piper::tools {

// One of the two steps; times in its unit.
struct StepAccount {
  double step = 0;
  std::vector<timeline::RankTime> ranks;  // by loaded rank
  timeline::LineCosts costs;
};
struct LinePair {
  std::string line, directive;  // as in LineCost
  timeline::LineCost predicted, measured;
};
struct Report {
  std::string priced_by;    // "unit costs (forward 1, backward 2)", "8 A100 ..., 3 of 9 distinct calls measured"
  std::string measured_by;  // the profile
  bool units = false;       // predicted times are units; else microseconds, as measured ones always are
  StepAccount predicted, measured;
  std::vector<LinePair> lines;                         // by measured lost time, the largest first
  std::vector<int32_t> ranks;                          // loaded ones
  std::vector<int64_t> predicted_peak, measured_peak;  // by loaded rank; measured ones only where a log was given
  // The first instructions in which the critical paths differ; "" where a path has no more. Both "": they agree.
  // Instructions that take no time in the predicted step are not compared.
  std::string predicted_part, measured_part;
};

std::string report_as_text(const Report& report);
std::string report_as_markdown(const Report& report);
// {"priced_by","measured_by","unit","step","unexplained","paths_part","ranks":[{"rank","busy","exposed_communication",
// "waiting","peak_bytes"}],"lines":[{"line","directive","lost","on_path","exposed","kernel","message","collective",
// "wait","bytes"}]}. Except for names and bytes every value is [predicted, measured]; a measured peak that is not known
// is null.
std::string report_as_json(const Report& report);

}  // namespace piper::tools
