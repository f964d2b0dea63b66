// The ways in which the ranks of a run are spread over processes, one file each. All print what went wrong and return
// the exit status. `inputs`: filled in by them, for the session that refers to it.
#pragma once

#include <functional>

#include "runtime/bootstrap/rank_environment.h"
#include "runtime/exec/backends/backend.h"
#include "runtime/program/flags.h"
#include "runtime/program/inputs.h"
#include "runtime/exec/session/session.h"
#include "schemas/plan/bundle_io.h"

namespace piper::program {

// What rank `rank` is executed on. `transport`: between the ranks of the process, which is its way to them; nullptr: it
// has another.
using MakeRank = std::function<exec::MakeBackend(hal::Transport* transport, int32_t rank)>;

// All ranks in this process. `by_transport`: their data, too, goes over its memory.
int run_here(const Flags& flags, const plan::OpenBundle& opened, const MakeRank& make, bool by_transport,
             Inputs& inputs, exec::Session& session);

// This process is one rank of several that meet over MPI or UCX. `by_transport`: their data, too, goes that way.
int run_processes(const Flags& flags, const plan::OpenBundle& opened, const MakeRank& make, bool by_transport,
                  const bootstrap::RankEnvironment& environment, bootstrap::CommBackend comm, Inputs& inputs,
                  exec::Session& session);

// This process is one rank of several; their data goes by NCCL, what hosts tell each other by the store that the
// launcher says.
int run_nccl(const Flags& flags, const plan::OpenBundle& opened, const bootstrap::RankEnvironment& environment,
             const MakeRank& make, Inputs& inputs, exec::Session& session);

// Ranks on GPUs, in this process or one in each. `refuse` prints.
int run_gpus(const Flags& flags, const plan::OpenBundle& opened, const bootstrap::RankEnvironment& environment,
             bootstrap::CommBackend comm, const std::function<int(const Error&)>& refuse, Inputs& inputs,
             exec::Session& session);

}  // namespace piper::program
