// Rank environment, choice of the communicator, agreement of the ranks.
#include <catch2/catch.hpp>

#include <sched.h>

#include <map>

#include "runtime/bootstrap/agreement.h"
#include "runtime/bootstrap/rank_environment.h"
#include "runtime/bootstrap/threads.h"

namespace piper::bootstrap {
namespace {

using Variables = std::map<std::string, std::string>;

RankEnvironment environment(const Variables& variables) {
  auto result = read_rank_environment([&](const char* name) -> std::optional<std::string> {
    auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
  REQUIRE(result.ok());
  return *result;
}

TEST_CASE("the launcher is known by its variables") {
  const RankEnvironment alone = environment({});
  CHECK(alone.launcher == Launcher::kNone);
  CHECK(alone.size == 1);

  const RankEnvironment mpirun =
      environment({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "2"}});
  CHECK(mpirun.launcher == Launcher::kOpenMpi);
  CHECK(mpirun.rank == 2);
  CHECK(mpirun.size == 4);
  CHECK(mpirun.can_join_mpi);

  const Variables slurm = {
      {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_ID", "0"}};
  CHECK(environment(slurm).launcher == Launcher::kSlurm);
  CHECK(environment(slurm).size == 2);
  CHECK_FALSE(environment(slurm).can_join_mpi);
  Variables with_pmix = slurm;
  with_pmix["PMIX_RANK"] = "1";
  CHECK(environment(with_pmix).can_join_mpi);

  CHECK(environment({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).launcher == Launcher::kTorchrun);
  CHECK(environment({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}).launcher == Launcher::kPmi);
}

// What torchrun starts below srun has Slurm's variables, which count torchrun's own processes.
TEST_CASE("a worker of torchrun is torchrun's, whatever started torchrun") {
  const RankEnvironment worker = environment({{"RANK", "5"},
                                              {"WORLD_SIZE", "8"},
                                              {"TORCHELASTIC_RUN_ID", "none"},
                                              {"SLURM_PROCID", "1"},
                                              {"SLURM_NTASKS", "2"},
                                              {"SLURM_STEP_ID", "0"},
                                              {"PMIX_RANK", "1"}});
  CHECK(worker.launcher == Launcher::kTorchrun);
  CHECK(worker.rank == 5);
  CHECK(worker.size == 8);
  CHECK_FALSE(worker.can_join_mpi);
}

// A batch script carries Slurm's variables, but is not one of srun's tasks.
TEST_CASE("a process in a batch script runs alone") {
  CHECK(environment({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).launcher == Launcher::kNone);
}

TEST_CASE("a variable that is no number is R0105") {
  auto result = read_rank_environment([](const char* name) -> std::optional<std::string> {
    if (std::string(name) == "RANK") return "first";
    if (std::string(name) == "WORLD_SIZE") return "2";
    return std::nullopt;
  });
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == "R0105");
  CHECK(result.error().message.find("'first'") != std::string::npos);
}

TEST_CASE("a rank that the launch does not have is R0105, with both variables") {
  struct Case {
    const char *rank_name, *rank, *size_name, *size, *message;
  };
  const Case cases[] = {
      {"RANK", "7", "WORLD_SIZE", "2", "RANK is 7 and WORLD_SIZE is 2, and ranks are numbered from 0 to 1"},
      {"RANK", "2", "WORLD_SIZE", "2", "RANK is 2 and WORLD_SIZE is 2"},
      {"RANK", "0", "WORLD_SIZE", "0", "WORLD_SIZE is 0, and a launch has at least one process"},
      {"OMPI_COMM_WORLD_RANK", "4", "OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_RANK is 4"},
      {"PMI_RANK", "9", "PMI_SIZE", "8", "PMI_RANK is 9"},
      {"SLURM_PROCID", "3", "SLURM_NTASKS", "3", "SLURM_PROCID is 3 and SLURM_NTASKS is 3"},
  };
  for (const Case& c : cases) {
    const auto result = read_rank_environment([&c](const char* name) -> std::optional<std::string> {
      if (std::string(name) == c.rank_name) return c.rank;
      if (std::string(name) == c.size_name) return c.size;
      if (std::string(name) == "SLURM_STEP_ID") return "0";
      return std::nullopt;
    });
    INFO(c.message);
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().code == "R0105");
    CHECK(result.error().message.find(c.message) != std::string::npos);
  }
}

TEST_CASE("one process runs all ranks, a launcher's processes use MPI") {
  RankEnvironment alone;
  CHECK(choose_comm(alone, "", 4).value() == CommBackend::kLocal);
  const RankEnvironment mpirun{Launcher::kOpenMpi, 0, 4, true};
  CHECK(choose_comm(mpirun, "", 4).value() == CommBackend::kMpi);
}

TEST_CASE("a launch of another size is R0101 and says what to launch") {
  const RankEnvironment mpirun{Launcher::kOpenMpi, 0, 2, true};
  const auto result = choose_comm(mpirun, "", 4);
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == "R0101");
  CHECK(result.error().message.find("plan is for 4 ranks, but 2 processes were launched") != std::string::npos);
  CHECK(result.error().message.find("mpirun -n 4") != std::string::npos);
  CHECK(choose_comm(mpirun, "local", 4).error().code == "R0101");
}

TEST_CASE("ranks on GPUs are those of this process, or go by NCCL") {
  const RankEnvironment alone{}, srun{Launcher::kSlurm, 1, 4, false};
  CHECK(choose_gpu_comm(alone, "", 4).value() == CommBackend::kLocal);
  CHECK(choose_gpu_comm(alone, "nccl", 4).value() == CommBackend::kNccl);
  CHECK(choose_gpu_comm(srun, "", 4).value() == CommBackend::kNccl);
  CHECK(choose_gpu_comm(srun, "", 2).error().code == "R0101");
  CHECK(choose_gpu_comm(srun, "local", 4).error().code == "R0101");
  CHECK(choose_gpu_comm(alone, "mpi", 4).error().code == "R0106");
}

TEST_CASE("processes that MPI cannot join use UCX") {
  for (const Launcher launcher : {Launcher::kSlurm, Launcher::kTorchrun, Launcher::kPiperLaunch}) {
    const RankEnvironment without_mpi{launcher, 0, 4, false};
    CHECK(choose_comm(without_mpi, "", 4).value() == CommBackend::kUcx);
    CHECK(choose_comm(without_mpi, "", 2).error().code == "R0101");
    CHECK(choose_gpu_comm(without_mpi, "ucx", 4).error().code == "R0106");
  }
  CHECK(choose_comm({Launcher::kOpenMpi, 0, 4, true}, "ucx", 4).value() == CommBackend::kUcx);
}

TEST_CASE("a rank of piper-launch is known by its variable, whatever started piper-launch") {
  const RankEnvironment rank = environment({{"RANK", "1"},
                                            {"WORLD_SIZE", "2"},
                                            {"PIPER_LAUNCH", "1"},
                                            {"SLURM_PROCID", "0"},
                                            {"SLURM_NTASKS", "1"},
                                            {"SLURM_STEP_ID", "0"}});
  CHECK(rank.launcher == Launcher::kPiperLaunch);
  CHECK(rank.rank == 1);
  CHECK(rank.size == 2);
}

TEST_CASE("srun without PMIx is R0103 where MPI is asked for") {
  const RankEnvironment srun{Launcher::kSlurm, 0, 4, false};
  const auto result = choose_comm(srun, "mpi", 4);
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == "R0103");
  CHECK(result.error().message.find("--mpi=pmix") != std::string::npos);
}

TEST_CASE("torchrun is R0103 where MPI is asked for, and says what runs CPU ranks") {
  const auto result = choose_comm({Launcher::kTorchrun, 0, 4, false}, "mpi", 4);
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == "R0103");
  CHECK(result.error().message.find("torchrun started 4 processes that MPI cannot join") == 0);
  CHECK(result.error().message.find("piper-launch -n 4") != std::string::npos);
  CHECK(result.error().message.find("mpirun -n 4") != std::string::npos);
}

TEST_CASE("threads of a rank: --threads, else its share of the usable cores, OMP_NUM_THREADS at most") {
  CHECK(threads_per_rank(0, std::nullopt, 8, 1) == 8);
  CHECK(threads_per_rank(0, std::nullopt, 8, 3) == 2);
  CHECK(threads_per_rank(0, std::nullopt, 2, 4) == 1);
  CHECK(threads_per_rank(0, "1", 8, 1) == 1);
  CHECK(threads_per_rank(0, "16", 8, 2) == 4);
  CHECK(threads_per_rank(0, "3,2", 8, 1) == 3);
  CHECK(threads_per_rank(6, "1", 2, 2) == 6);
  for (const char* no_number : {"", "0", "-2", "many", "4x", "99999999999999999999"})
    CHECK(threads_per_rank(0, no_number, 8, 2) == 4);
}

TEST_CASE("usable cores are those of the affinity mask") {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  CHECK(usable_cores() == CPU_COUNT(&before));
  int core = 0;
  while (!CPU_ISSET(core, &before)) ++core;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(usable_cores() == 1);
  REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
}

TEST_CASE("ranks that read another bundle are named, R0102") {
  const std::vector<AgreedOption> same = {{"seed", "1"}};
  const Status status = compare_agreements({{"aaaa", same}, {"bbbb", same}, {"aaaa", same}, {"cccc", same}});
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().code == "R0102");
  CHECK(status.error().message.find("ranks 1, 3 read another plan") == 0);
  CHECK(compare_agreements({{"aaaa", same}, {"aaaa", same}}).ok());
}

TEST_CASE("only options that differ are named, with both values and their ranks, R0102") {
  const auto message = [](const std::vector<std::vector<AgreedOption>>& by_rank) {
    std::vector<Agreement> agreements;
    for (const auto& options : by_rank) agreements.push_back({"aaaa", options});
    const Status status = compare_agreements(agreements);
    return status.ok() ? "" : status.error().code + " " + status.error().message;
  };
  const AgreedOption steps = {"steps", "20"}, sampling = {"sampling", "shuffled"};
  CHECK(message({{{"seed", "1"}, steps, sampling}, {{"seed", "2"}, steps, sampling}}) ==
        "R0102 rank 1 started with other options than rank 0: seed (rank 0: 1, rank 1: 2)");
  CHECK(message({{{"seed", "1"}, steps}, {{"seed", "1"}, steps, {"--save", "given"}}, {{"seed", "7"}, steps}}) ==
        "R0102 ranks 1, 2 started with other options than rank 0: seed (rank 0: 1, rank 2: 7), --save (rank 0: not "
        "given, rank 1: given)");
  CHECK(message({{steps, {"--profile", "given"}}, {steps}}) ==
        "R0102 rank 1 started with other options than rank 0: --profile (rank 0: given, rank 1: not given)");
  CHECK(message({{steps}, {steps}}).empty());
}

}  // namespace
}  // namespace piper::bootstrap
