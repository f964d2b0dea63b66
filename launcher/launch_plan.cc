#include "launcher/launch_plan.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "launcher/bundle_argument.h"
#include "launcher/find_program.h"
#include "launcher/restarts.h"
#include "schemas/launch/variables.h"
#include "schemas/plan/bundle_io.h"

namespace piper::launcher {

namespace {

Status refused(const std::string& why) { return Status::failure("L0101", why); }

bool is_mpirun(const std::string& program) {
  const std::string name = std::filesystem::path(program).filename().string();
  return name == "mpirun" || name == "mpiexec" || name == "orterun" || name == "prterun";
}

Status read_master(const std::string& text, LaunchPlan& plan) {
  const size_t colon = text.rfind(':');
  const char* const end = text.data() + text.size();
  if (colon == std::string::npos || colon == 0) return refused("--master is '" + text + "', not HOST:PORT");
  const auto read = std::from_chars(text.data() + colon + 1, end, plan.master_port);
  if (read.ec != std::errc() || read.ptr != end || plan.master_port == 0)
    return refused("--master is '" + text + "', not HOST:PORT");
  plan.master_host = text.substr(0, colon);
  if (plan.master_host.front() == '[' && plan.master_host.back() == ']')  // IPv6
    plan.master_host = plan.master_host.substr(1, plan.master_host.size() - 2);
  return {};
}

}  // namespace

bool take_program(std::vector<std::string> words, const std::string& unexpected, LaunchOptions& options) {
  if (!words.empty() && words.front() == "--") words.erase(words.begin());
  if (words.empty() || words.front().compare(0, 1, "-") == 0) {
    std::fprintf(stderr, "piper-launch: %s: piper-launch [OPTIONS] [--] PROGRAM [ARGUMENTS]...\n",
                 words.empty() ? "there is no program to start" : unexpected.c_str());
    return false;
  }
  options.arguments = std::move(words);
  return true;
}

Result<LaunchPlan> make_launch_plan(const LaunchOptions& options) {
  LaunchPlan plan;
  plan.arguments = options.arguments;
  PIPER_ASSIGN(plan.arguments.at(0), find_program(options.arguments.at(0)));
  if (options.node >= options.nodes)
    return refused("--node-rank " + std::to_string(options.node) + " is none of " + std::to_string(options.nodes) +
                   " nodes, which count from 0");
  if (options.nodes > 1 && options.master.empty())
    return refused("--nnodes wants --master HOST:PORT, an address of the first node that the others can reach");
  plan.bundle = bundle_among(options.arguments, "");
  plan.hangs = options.hangs;
  plan.over_mpi = is_mpirun(options.arguments.at(0));
  if (plan.over_mpi) {
    if (options.ranks || options.nodes > 1)
      return refused("-n and --nnodes are mpirun's own business: give them after its name");
  } else if (options.ranks) {
    plan.ranks_here = *options.ranks;
  } else if (plan.bundle.empty()) {
    return refused(
        "nothing says how many ranks to start: none of the program's arguments is the folder of a plan bundle. Check "
        "their spelling, or give the number of ranks by -n");
  } else {
    PIPER_ASSIGN(const plan::OpenBundle bundle, plan::open_bundle(plan.bundle));
    const int32_t world = bundle.manifest.world_size;
    if (world % options.nodes != 0)
      return refused("the plan's " + std::to_string(world) + " ranks do not divide among " +
                     std::to_string(options.nodes) + " nodes");
    plan.ranks_here = world / options.nodes;
  }
  if (int64_t{plan.ranks_here} * options.nodes > 1'000'000) return refused("more than a million ranks");
  plan.world_size = plan.ranks_here * options.nodes;
  plan.first_rank = plan.ranks_here * options.node;
  plan.master_host = "127.0.0.1";
  if (!options.master.empty()) PIPER_RETURN_IF_ERROR(read_master(options.master, plan));
  // All nodes must call the run by the same name, and two runs of one machine by two.
  plan.run_id = "piper-launch." + (options.nodes > 1 ? options.master : std::to_string(getpid()));
  plan.lease = options.lease;
  plan.store_socket = options.store_socket;
  plan.tag_output = options.tag_output;
  plan.grace = options.grace;
  plan.restarts = options.restarts;
  plan.attempt = options.attempt;
  plan.report = options.report;
  if (plan.restarts > 0 && options.nodes > 1)
    return Status::failure(
        "L0105",
        "--restarts works only for a run on one node: with --nnodes, each node has its own launcher, and a launcher "
        "does not know whether the others restart their ranks; to restart jobs on several nodes, use piperd");
  if (plan.restarts > 0 && !has_flag(plan.arguments, "--checkpoint"))
    return Status::failure("L0105",
                           "--restarts wants --checkpoint among the program's arguments: a run that saves "
                           "nothing would begin anew each time");
  return plan;
}

std::vector<std::string> variables_of(const LaunchPlan& plan, int32_t rank, int32_t attempt, uint16_t port,
                                      const std::string& rings) {
  const int32_t local = rank - plan.first_rank;
  const auto variable = [](const char* name, const std::string& value) { return std::string(name) + "=" + value; };
  if (plan.over_mpi) {
    std::vector<std::string> variables{variable(launch::kRings, rings)};
    // Between SIGTERM and SIGKILL, for a checkpoint. mpirun waits for all of it whenever it ends ranks.
    if (has_flag(plan.arguments, "--checkpoint"))
      variables.push_back(
          variable("OMPI_MCA_odls_base_sigkill_timeout", std::to_string(plan.grace.count() / 1000 + 1)));
    return variables;
  }
  return {variable(launch::kRings, rings),
          variable("RANK", std::to_string(rank)),
          variable("WORLD_SIZE", std::to_string(plan.world_size)),
          variable("LOCAL_RANK", std::to_string(local)),
          variable("LOCAL_WORLD_SIZE", std::to_string(plan.ranks_here)),
          variable("MASTER_ADDR", plan.master_host),
          variable("MASTER_PORT", std::to_string(port)),
          variable("TORCHELASTIC_RUN_ID", plan.run_id),
          variable("TORCHELASTIC_RESTART_COUNT", std::to_string(attempt)),
          variable("TORCHELASTIC_USE_AGENT_STORE", "False"),
          variable(launch::kLaunchedBy, "1")};
}

}  // namespace piper::launcher
