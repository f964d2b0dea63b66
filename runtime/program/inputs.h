// What a process reads before any rank starts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/choose_start.h"
#include "runtime/checkpoint/weights.h"
#include "runtime/data/data_source.h"
#include "runtime/exec/session/session.h"
#include "runtime/program/flags.h"
#include "schemas/plan/bundle_io.h"

namespace piper::program {

struct Inputs {
  std::string ranks_text;  // for people: how many ranks, where, on how many threads
  checkpoint::Start start;
  plan::Bundle bundle;
  std::optional<checkpoint::WeightSource> weights;
  std::unique_ptr<data::DataSource> data;
  std::unique_ptr<data::DataSource> eval_data;  // null: nothing is evaluated
};

// Where the run goes on. `control`: null where all ranks are in this process. Errors of checkpoint::choose_start().
Status choose_start(const Flags& flags, hal::ControlChannel* control, const hal::WaitControl& wait, Inputs& inputs);

// After choose_start(). Reads `ranks` of the bundle, all where it is empty; with rank 0 among them the bundle is
// proved. Fills in what of `session` all ranks of the process share; `inputs` outlives its use.
Status read_inputs(const Flags& flags, const plan::OpenBundle& opened, const std::vector<int32_t>& ranks,
                   Inputs& inputs, exec::Session& session);

}  // namespace piper::program
