// Who this process is in a launch: rank and size as the launcher wrote them into the environment.
// Used by piper-run to choose a communicator and to explain a launch that does not fit the plan. It
// starts nothing and talks to nobody.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "schemas/base/status.h"

namespace piper::bootstrap {

enum class Launcher : uint8_t {
  kNone,         // started by hand: one process
  kOpenMpi,      // mpirun or mpiexec of Open MPI
  kPmi,          // PMI or PMIx of another launcher
  kSlurm,        // srun
  kTorchrun,     // RANK and WORLD_SIZE; also below srun
  kPiperLaunch,  // the same variables, and its own
};
std::string_view launcher_name(Launcher launcher);

struct RankEnvironment {
  Launcher launcher = Launcher::kNone;
  int32_t rank = 0;
  int32_t size = 1;
  // Whether MPI processes of this launch can find each other.
  bool can_join_mpi = false;
};

using GetVariable = std::function<std::optional<std::string>(const char* name)>;
// The first launcher whose variables are complete. R0105: a variable that is not a number, a rank that the launch does
// not have.
Result<RankEnvironment> read_rank_environment(const GetVariable& get);
// From the process's own environment.
std::optional<std::string> process_variable(const char* name);

// The way on which ranks communicate: piper-run --comm.
enum class CommBackend : uint8_t {
  kLocal,  // all ranks in this process; the default for one process; needs nothing, uses one machine
  kMpi,    // one process a rank; the default under a launcher that MPI knows; needs MPI
  kUcx,    // one process a rank; the default under any other launcher; needs UCX
  kNccl,   // a GPU a rank; one process a rank under a launcher, for ranks on GPUs the default there
};

// `requested`: "local", "mpi", "ucx" or "" for the default. R0101: the launch does not fit the world size. R0103: MPI
// is asked for, and the launcher's processes cannot join in it. Both say what to launch instead.
Result<CommBackend> choose_comm(const RankEnvironment& environment, const std::string& requested, int32_t world_size);
// The same for ranks on GPUs: "local", "nccl" or "". R0106: "mpi" or "ucx".
Result<CommBackend> choose_gpu_comm(const RankEnvironment& environment, const std::string& requested,
                                    int32_t world_size);
// R0101 again, once MPI knows its size.
Status check_world_size(int32_t launched, int32_t world_size);

}  // namespace piper::bootstrap
