// Where the processes of a launch meet, and which of its node's ranks one is: by the launchers' variables.
#include <catch2/catch.hpp>

#include <map>

#include "runtime/bootstrap/rendezvous.h"

namespace piper::bootstrap {
namespace {

using Variables = std::map<std::string, std::string>;

GetVariable getter(const Variables& variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

RankEnvironment environment(const Variables& variables) {
  const auto result = read_rank_environment(getter(variables));
  REQUIRE(result.ok());
  return *result;
}

hal::StoreAddress rendezvous(const Variables& variables) {
  const auto result = read_rendezvous(environment(variables), getter(variables));
  INFO((result.ok() ? "" : result.error().message));
  REQUIRE(result.ok());
  return *result;
}

// The variables with some changed; an empty value unsets one.
Variables with(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) {
    if (value.empty()) variables.erase(name);
    else variables[name] = value;
  }
  return variables;
}

// What torch 2.13's torchrun sets on the second of two nodes with four ranks each.
const Variables kTorchrun = {{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "gpu01.cluster"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "none"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
// What Slurm's srun -N2 -n4 without --mpi sets.
const Variables kSlurm = {
    {"SLURM_PROCID", "3"},    {"SLURM_STEP_NUM_TASKS", "4"},         {"SLURM_STEP_ID", "2"},
    {"SLURM_JOB_ID", "1234"}, {"SLURM_STEP_NODELIST", "gpu[03-05]"}, {"SLURM_NODELIST", "gpu[01-09]"},
    {"SLURM_LOCALID", "1"}};

TEST_CASE("torchrun's processes meet in its own store") {
  const hal::StoreAddress at = rendezvous(kTorchrun);
  CHECK(at.host == "gpu01.cluster");
  CHECK(at.port == 29500);
  CHECK(at.run_id == "none");
  CHECK(at.attempt == 2);
  CHECK(at.several_nodes);
  CHECK(at.served_by_launcher);
}

// torchrun with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1.
TEST_CASE("where torchrun serves no store, rank 0 does, on loopback where all ranks are on one node") {
  const Variables own = with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}});
  CHECK_FALSE(rendezvous(own).served_by_launcher);
  CHECK(rendezvous(own).host == "gpu01.cluster");
  const hal::StoreAddress one_node = rendezvous(with(own, {{"LOCAL_WORLD_SIZE", "8"}}));
  CHECK(one_node.host == "127.0.0.1");
  CHECK_FALSE(one_node.several_nodes);
}

TEST_CASE("rank 0 of piper-launch takes over a socket that listens") {
  const Variables second = with(kTorchrun, {{"PIPER_LAUNCH", "1"}, {"PIPER_STORE_SOCKET", "5"}});
  CHECK(rendezvous(second).listening == -1);
  const Variables first = with(second, {{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"TORCHELASTIC_USE_AGENT_STORE", "False"}});
  CHECK(rendezvous(first).listening == 5);
  CHECK(rendezvous(with(first, {{"PIPER_STORE_SOCKET", ""}})).listening == -1);
}

TEST_CASE("RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are enough") {
  const Variables by_hand = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "4000"}};
  const hal::StoreAddress here = rendezvous(by_hand);
  CHECK(here.host == "127.0.0.1");
  CHECK(here.run_id == "");
  CHECK(here.attempt == 0);
  CHECK_FALSE(here.several_nodes);
  CHECK_FALSE(here.served_by_launcher);
  CHECK(rendezvous(with(by_hand, {{"MASTER_ADDR", "10.0.0.7"}})).several_nodes);
}

TEST_CASE("srun's processes meet at the first host of the step, at a port of job and step") {
  const hal::StoreAddress at = rendezvous(kSlurm);
  CHECK(at.host == "gpu03");
  CHECK(at.port == kFirstPort + (1234 * 131 + 2) % kPorts);
  CHECK(at.run_id == "slurm.1234.2");
  CHECK(at.attempt == 0);
  CHECK(at.several_nodes);
  CHECK_FALSE(at.served_by_launcher);
  CHECK(rendezvous(with(kSlurm, {{"SLURM_STEP_ID", "3"}})).port == at.port + 1);
  CHECK(rendezvous(with(kSlurm, {{"SLURM_RESTART_COUNT", "1"}})).attempt == 1);
  const hal::StoreAddress last = rendezvous(with(kSlurm, {{"SLURM_JOB_ID", "4294967295"}}));
  CHECK(last.port >= kFirstPort);
  CHECK(last.port < kFirstPort + kPorts);
  CHECK(rendezvous(with(kSlurm, {{"SLURM_STEP_NODELIST", ""}})).host == "gpu01");
}

TEST_CASE("srun on one node stays on loopback") {
  const hal::StoreAddress at = rendezvous(with(kSlurm, {{"SLURM_STEP_NODELIST", "gpu07"}}));
  CHECK(at.host == "127.0.0.1");
  CHECK_FALSE(at.several_nodes);
}

TEST_CASE("under srun MASTER_ADDR and MASTER_PORT count where both are set") {
  const hal::StoreAddress at = rendezvous(with(kSlurm, {{"MASTER_ADDR", "ib-gpu03"}, {"MASTER_PORT", "6000"}}));
  CHECK(at.host == "ib-gpu03");
  CHECK(at.port == 6000);
  CHECK(at.run_id == "slurm.1234.2");
  CHECK(rendezvous(with(kSlurm, {{"MASTER_ADDR", "ib-gpu03"}})).host == "gpu03");
}

TEST_CASE("a variable that is missing or wrong is R0105, with its name and value") {
  struct Case {
    const Variables* launch;
    Variables changes;
    const char* message;
  };
  const Case cases[] = {
      {&kTorchrun, {{"MASTER_ADDR", ""}}, "MASTER_ADDR is not set: the ranks of a launch by torchrun meet"},
      {&kTorchrun, {{"MASTER_PORT", ""}}, "MASTER_PORT is not set"},
      {&kTorchrun, {{"MASTER_PORT", "0"}}, "MASTER_PORT is '0', not a number from 1 to 65535"},
      {&kTorchrun, {{"MASTER_PORT", "65536"}}, "MASTER_PORT is '65536'"},
      {&kTorchrun, {{"MASTER_PORT", "29500x"}}, "MASTER_PORT is '29500x'"},
      {&kTorchrun, {{"MASTER_ADDR", "gpu 01"}}, "MASTER_ADDR is 'gpu 01', not a host's name or address"},
      {&kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "-1"}}, "TORCHELASTIC_RESTART_COUNT is '-1'"},
      {&kTorchrun, {{"TORCHELASTIC_RUN_ID", "a\nb"}}, "TORCHELASTIC_RUN_ID is 'a\nb', not one line"},
      {&kTorchrun, {{"TORCHELASTIC_RUN_ID", std::string(257, 'x')}}, "not one line of at most 256 bytes"},
      {&kTorchrun, {{"LOCAL_WORLD_SIZE", "0"}}, "LOCAL_WORLD_SIZE is '0'"},
      {&kTorchrun, {{"LOCAL_WORLD_SIZE", "64"}}, "LOCAL_WORLD_SIZE is '64', not a number from 1 to"},
      {&kSlurm, {{"SLURM_JOB_ID", ""}}, "SLURM_JOB_ID is not set: the ranks of a launch by srun meet"},
      {&kSlurm, {{"SLURM_JOB_ID", "job"}}, "SLURM_JOB_ID is 'job', not a number"},
      {&kSlurm, {{"SLURM_STEP_ID", "4294967296"}}, "SLURM_STEP_ID is '4294967296'"},
      {&kSlurm, {{"SLURM_STEP_NODELIST", "gpu[03"}}, "SLURM_STEP_NODELIST is 'gpu[03', not a list of nodes"},
      {&kSlurm, {{"SLURM_STEP_NODELIST", ""}, {"SLURM_NODELIST", ""}}, "SLURM_STEP_NODELIST is not set"},
      {&kSlurm, {{"MASTER_ADDR", "here"}, {"MASTER_PORT", "none"}}, "MASTER_PORT is 'none'"},
  };
  for (const Case& c : cases) {
    const Variables variables = with(*c.launch, c.changes);
    // The environment itself is right; only where to meet is asked for here.
    const auto result = read_rendezvous(environment(variables), getter(variables));
    INFO(c.message);
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().code == "R0105");
    CHECK(result.error().message.find(c.message) != std::string::npos);
  }
}

TEST_CASE("a launcher that gives no address is R0103") {
  const auto result = read_rendezvous({Launcher::kOpenMpi, 0, 2, true}, getter({}));
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == "R0103");
  CHECK(result.error().message.find("mpirun gives no address") == 0);
}

TEST_CASE("the first host of a node list, and whether it has more") {
  struct Case {
    const char *text, *first;
    bool several;
  };
  const Case cases[] = {
      {"n1", "n1", false},
      {"n1,n2", "n1", true},
      {"gpu[03-05,9],login1", "gpu03", true},
      {"gpu[7]", "gpu7", false},
      {"gpu[7-7]", "gpu7", false},
      {"gpu[007,009]", "gpu007", true},
      {"rack[1-2]-n[08-10].fast", "rack1-n08.fast", true},
      {"login1,gpu[03-05]", "login1", true},
  };
  for (const Case& c : cases) {
    const auto list = read_node_list("SLURM_NODELIST", c.text);
    INFO(c.text);
    REQUIRE(list.ok());
    CHECK(list->first == c.first);
    CHECK(list->several == c.several);
  }
  for (const char* text : {"", ",n1", "n1,", "gpu[", "gpu[]", "gpu[1", "gpu[1-]", "gpu[-2]", "gpu[2-1]", "gpu[1,]",
                           "gpu[a-b]", "gpu]1", "gpu 1", "gpu[99999999999999999999]"}) {
    const auto list = read_node_list("SLURM_NODELIST", text);
    INFO(text);
    REQUIRE_FALSE(list.ok());
    CHECK(list.error().code == "R0105");
  }
}

TEST_CASE("how many ranks a node has, where the launcher says") {
  CHECK(ranks_of_node(getter({})) == 0);
  CHECK(ranks_of_node(getter({{"LOCAL_WORLD_SIZE", "4"}})) == 4);
  CHECK(ranks_of_node(getter({{"LOCAL_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})) == 2);
  CHECK(ranks_of_node(getter({{"MPI_LOCALNRANKS", "3"}})) == 3);
  CHECK(ranks_of_node(getter({{"LOCAL_WORLD_SIZE", "many"}})) == 0);
  CHECK(ranks_of_node(getter({{"LOCAL_WORLD_SIZE", "-1"}})) == 0);
}

TEST_CASE("the index among the ranks of a node is the launcher's own") {
  const auto local_rank = [](const Variables& variables) {
    return read_local_rank(environment(variables), getter(variables)).value();
  };
  CHECK(local_rank(kTorchrun) == 1);
  CHECK(local_rank(with(kTorchrun, {{"SLURM_LOCALID", "0"}})) == 1);
  CHECK(local_rank(kSlurm) == 1);
  CHECK(local_rank(with(kSlurm, {{"LOCAL_RANK", "0"}})) == 1);
  const Variables mpirun = {
      {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "3"}};
  CHECK(local_rank(with(mpirun, {{"SLURM_LOCALID", "0"}})) == 3);
  CHECK(local_rank({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "2"}}) == 2);
  CHECK(local_rank({}) == 0);

  const Variables none = with(kSlurm, {{"SLURM_LOCALID", ""}});
  const auto missing = read_local_rank(environment(none), getter(none));
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().code == "R0105");
  CHECK(missing.error().message.find("none of the environment variables LOCAL_RANK, SLURM_LOCALID") == 0);
  const Variables many = with(kTorchrun, {{"LOCAL_RANK", "64"}});
  CHECK(read_local_rank(environment(many), getter(many)).error().message.find("LOCAL_RANK is '64'") !=
        std::string::npos);
  const Variables wrong = with(kSlurm, {{"SLURM_LOCALID", "first"}});
  CHECK(read_local_rank(environment(wrong), getter(wrong)).error().message.find("SLURM_LOCALID is 'first'") !=
        std::string::npos);
}

}  // namespace
}  // namespace piper::bootstrap
