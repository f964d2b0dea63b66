#include "runtime/bootstrap/rank_environment.h"

#include <charconv>
#include <cstdlib>

#include "schemas/launch/variables.h"

namespace piper::bootstrap {

namespace {

Result<int32_t> number(const char* name, const std::string& text) {
  int32_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    return Status::failure("R0105",
                           std::string("the environment variable ") + name + " is '" + text + "', not a number");
  return value;
}

struct Names {
  Launcher launcher;
  const char* rank;
  const char* size;
};
constexpr Names kNames[] = {
    {Launcher::kOpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {Launcher::kPmi, "PMI_RANK", "PMI_SIZE"},
    {Launcher::kSlurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {Launcher::kSlurm, "SLURM_PROCID", "SLURM_NTASKS"},
    {Launcher::kTorchrun, "RANK", "WORLD_SIZE"},
};

std::string processes(int32_t count) { return std::to_string(count) + (count == 1 ? " process" : " processes"); }

std::string what_to_launch(int32_t world_size) {
  const std::string n = std::to_string(world_size);
  return "Start it as `piper-launch -n " + n + " piper-run ...`, `mpirun -n " + n +
         " piper-run ...` or `srun --mpi=pmix -n " + n +
         " piper-run ...`, or once without a launcher to run all ranks in one process";
}

}  // namespace

std::string_view launcher_name(Launcher launcher) {
  switch (launcher) {
    case Launcher::kNone: return "no launcher";
    case Launcher::kOpenMpi: return "mpirun";
    case Launcher::kPmi: return "a PMI launcher";
    case Launcher::kSlurm: return "srun";
    case Launcher::kTorchrun: return "torchrun";
    case Launcher::kPiperLaunch: return "piper-launch";
  }
  return "";
}

std::optional<std::string> process_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

Result<RankEnvironment> read_rank_environment(const GetVariable& get) {
  const bool has_pmix = get("PMIX_RANK").has_value() || get("PMIX_NAMESPACE").has_value();
  // A batch script has Slurm's variables too, but is no task of a step.
  const bool in_step = get("SLURM_STEP_ID").has_value() || get("SLURM_STEPID").has_value();
  // Its workers carry the variables of what started torchrun, too, and are not the processes that MPI would join.
  const bool of_piper = get(launch::kLaunchedBy).has_value();
  const bool of_torchrun = of_piper || get("TORCHELASTIC_RUN_ID").has_value();
  for (const Names& names : kNames) {
    if (of_torchrun && names.launcher != Launcher::kTorchrun) continue;
    auto rank = get(names.rank);
    auto size = get(names.size);
    if (!rank || !size || (names.launcher == Launcher::kSlurm && !in_step)) continue;
    RankEnvironment result;
    result.launcher = of_piper ? Launcher::kPiperLaunch : names.launcher;
    PIPER_ASSIGN(result.rank, number(names.rank, *rank));
    PIPER_ASSIGN(result.size, number(names.size, *size));
    if (result.rank >= result.size)
      return Status::failure(
          "R0105", "the environment variables contradict each other: " + std::string(names.rank) + " is " + *rank +
                       " and " + names.size + " is " + *size + ", and " +
                       (result.size > 0 ? "ranks are numbered from 0 to " + std::to_string(result.size - 1)
                                        : "a launch has at least one process"));
    result.can_join_mpi =
        !of_torchrun && (names.launcher == Launcher::kOpenMpi || names.launcher == Launcher::kPmi || has_pmix);
    return result;
  }
  RankEnvironment result;
  result.can_join_mpi = true;
  if (auto rank = get("PMIX_RANK")) {  // a PMIx launcher that gives the size to MPI alone
    result.launcher = Launcher::kPmi;
    PIPER_ASSIGN(result.rank, number("PMIX_RANK", *rank));
    result.size = 0;
  }
  return result;
}

Status check_world_size(int32_t launched, int32_t world_size) {
  if (launched == world_size) return {};
  return Status::failure("R0101", "the plan is for " + std::to_string(world_size) +
                                      (world_size == 1 ? " rank" : " ranks") + ", but " + processes(launched) +
                                      (launched == 1 ? " was" : " were") + " launched. " + what_to_launch(world_size));
}

namespace {

Result<CommBackend> choose_local(const RankEnvironment& environment, int32_t world_size) {
  if (environment.size == 1) return CommBackend::kLocal;
  return Status::failure("R0101", "--comm local runs all ranks in one process, but " +
                                      std::string(launcher_name(environment.launcher)) + " started " +
                                      processes(environment.size) + ". " + what_to_launch(world_size));
}

}  // namespace

Result<CommBackend> choose_gpu_comm(const RankEnvironment& environment, const std::string& requested,
                                    int32_t world_size) {
  if (requested == "mpi" || requested == "ucx")
    return Status::failure("R0106", "ranks on GPUs send their data by NCCL: use --comm nccl, or local in one process");
  if (requested == "local" || (requested.empty() && environment.size == 1))
    return choose_local(environment, world_size);
  if (environment.size > 1) PIPER_RETURN_IF_ERROR(check_world_size(environment.size, world_size));
  return CommBackend::kNccl;
}

Result<CommBackend> choose_comm(const RankEnvironment& environment, const std::string& requested, int32_t world_size) {
  const bool launched = environment.size != 1;  // 0: MPI will tell
  if (requested == "local" || (requested.empty() && !launched)) return choose_local(environment, world_size);
  if (environment.size != 0) PIPER_RETURN_IF_ERROR(check_world_size(environment.size, world_size));
  if (requested == "ucx" || (requested.empty() && !environment.can_join_mpi)) return CommBackend::kUcx;
  if (!environment.can_join_mpi) {
    std::string fix = environment.launcher == Launcher::kSlurm
                          ? "Add --mpi=pmix to srun (srun --mpi=list shows what it offers), or use --comm ucx"
                          : what_to_launch(world_size);
    return Status::failure("R0103", std::string(launcher_name(environment.launcher)) + " started " +
                                        processes(environment.size) + " that MPI cannot join to one world. " + fix);
  }
  return CommBackend::kMpi;
}

}  // namespace piper::bootstrap
