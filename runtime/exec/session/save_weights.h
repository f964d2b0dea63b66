// The weights of a run as a file for other programs: --save and --save-best.
#pragma once

#include <map>
#include <string>

#include "runtime/checkpoint/finite_state.h"
#include "runtime/exec/load_rank.h"
#include "runtime/exec/session/session.h"
#include "runtime/hal/control_channel.h"

namespace piper::exec {

// Collective. `plan`: the training's; `rank` may be its evaluation. All tensors of the model, or, with
// SessionOptions::trained_only, those that steps change: what is trained, and running statistics. `metadata`: of the
// file. R0503, P0621.
Status save_weights(const Session& session, const std::string& path, LoadedRank& rank, const plan::RankPlan& plan,
                    hal::ControlChannel& control, const hal::WaitControl& wait,
                    const std::map<std::string, std::string>& metadata = {});

// What is wrong with the weights of which this rank saves the elements; "": nothing.
Result<std::string> fault_of_weights(const LoadedRank& rank, checkpoint::FiniteState& finite);

}  // namespace piper::exec
