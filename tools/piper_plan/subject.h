// What an instruction works on, in the names of its plan: for pictures and traces, which are drawn per instruction.
#pragma once

#include <cstdint>
#include <string>

#include "schemas/plan/plan.h"

namespace piper::tools {

struct Subject {
  std::string name;      // of the run ("PP0.F m0"), the buffer or the event
  std::string object;    // of the channel or communicator; "" for others
  int32_t program = -1;  // index into Bundle::programs; -1: runs none
  int32_t channel = -1;  // index into RankPlan::channels; -1: is no message
  int64_t bytes = 0;     // of a message, or of a collective's whole data on this rank; of counted rows at most
};
Subject subject_of(const plan::RankPlan& plan, const plan::Action& action);

}  // namespace piper::tools
