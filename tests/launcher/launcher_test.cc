// What piper-launch starts, whether it starts it again, and what it passes on.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "launcher/launch_plan.h"
#include "launcher/output.h"
#include "launcher/report.h"
#include "launcher/restarts.h"
#include "tests/unit/temp_folder.h"

namespace piper::launcher {
namespace {

using Arguments = std::vector<std::string>;

LaunchOptions shell(int32_t ranks) {
  LaunchOptions options;
  options.ranks = ranks;
  options.arguments = {"sh", "-c", "true"};
  return options;
}

bool contains(const Arguments& variables, const std::string& variable) {
  return std::find(variables.begin(), variables.end(), variable) != variables.end();
}

TEST_CASE("the ranks of one node meet on loopback, at a port that is still to be found") {
  const auto plan = make_launch_plan(shell(3));
  REQUIRE(plan.ok());
  CHECK(plan->arguments.at(0).front() == '/');
  CHECK(plan->world_size == 3);
  CHECK(plan->master_host == "127.0.0.1");
  CHECK(plan->master_port == 0);
  const Arguments variables = variables_of(*plan, 2, 1, 4711, "");
  for (const char* variable : {"RANK=2", "LOCAL_RANK=2", "WORLD_SIZE=3", "LOCAL_WORLD_SIZE=3", "MASTER_ADDR=127.0.0.1",
                               "MASTER_PORT=4711", "TORCHELASTIC_RESTART_COUNT=1", "PIPER_LAUNCH=1"})
    CHECK(contains(variables, variable));
}

TEST_CASE("each node starts its own ranks") {
  LaunchOptions options = shell(2);
  options.nodes = 3;
  options.node = 1;
  options.master = "[fe80::1]:2000";
  const auto plan = make_launch_plan(options);
  REQUIRE(plan.ok());
  CHECK(plan->world_size == 6);
  CHECK(plan->first_rank == 2);
  CHECK(plan->master_host == "fe80::1");
  CHECK(plan->master_port == 2000);
  const Arguments variables = variables_of(*plan, 3, 0, plan->master_port, "");
  for (const char* variable : {"RANK=3", "LOCAL_RANK=1", "WORLD_SIZE=6", "LOCAL_WORLD_SIZE=2", "MASTER_PORT=2000"})
    CHECK(contains(variables, variable));
}

// mpirun starts the ranks itself, and gives them their numbers.
TEST_CASE("over mpirun there is one process, which is told where the rings are") {
  const TempFolder folder;
  const std::string mpirun = folder.write("mpirun", "#!/bin/sh\n");
  std::filesystem::permissions(mpirun, std::filesystem::perms::owner_all);
  LaunchOptions options;
  options.arguments = {mpirun, "-n", "4", "piper-run"};
  const auto plan = make_launch_plan(options);
  REQUIRE(plan.ok());
  CHECK(plan->over_mpi);
  CHECK(plan->ranks_here == 1);
  const Arguments variables = variables_of(*plan, 0, 0, 4711, "/dev/shm/rings");
  CHECK(contains(variables, "PIPER_RINGS=/dev/shm/rings"));
  for (const std::string& variable : variables) CHECK(variable.compare(0, 5, "RANK=") != 0);
  options.ranks = 4;
  const auto refused = make_launch_plan(options);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == "L0101");
}

TEST_CASE("a launch that does not fit is refused") {
  const auto refused = [](const LaunchOptions& options, const std::string& code, const std::string& text) {
    const auto plan = make_launch_plan(options);
    REQUIRE_FALSE(plan.ok());
    CHECK(plan.error().code == code);
    CHECK(plan.error().message.find(text) != std::string::npos);
  };
  LaunchOptions options = shell(2);
  options.ranks.reset();
  refused(options, "L0101", "nothing says how many ranks");
  options = shell(2);
  options.nodes = 2;
  refused(options, "L0101", "--nnodes wants --master");
  for (const char* master : {"host", ":1", "host:", "host:0", "host:65536", "host:1x"}) {
    options.master = master;
    refused(options, "L0101", "not HOST:PORT");
  }
  options.node = 2;
  refused(options, "L0101", "--node-rank 2 is none of 2 nodes");
  options = shell(2);
  options.arguments[0] = "no-such-program";
  refused(options, "L0102", "'no-such-program'");
  options.arguments[0] = "/etc/passwd";
  refused(options, "L0102", "no program that can be started");
  options = shell(2);
  options.restarts = 1;
  refused(options, "L0105", "--checkpoint");
  options.arguments.push_back("--checkpoint=c");
  CHECK(make_launch_plan(options).ok());
  options.nodes = 2;
  options.master = "host:1";
  refused(options, "L0105", "use piperd");
}

TEST_CASE("how an attempt ended is read as it was written, or not at all") {
  const TempFolder folder;
  const std::string path = folder / "report.json";
  CHECK_FALSE(read_report(path));
  Outcome outcome;
  outcome.exit_status = 137;
  outcome.failed_rank = 1;
  outcome.asked_to_stop = true;
  outcome.statuses = {143, 137};
  outcome.hang = Status::failure("L0121", "rank 1 was stopped");
  outcome.tail = {"a \"line\"\n", "\xff\x01\n"};
  write_report(path, outcome);
  const auto read = read_report(path);
  REQUIRE(read);
  CHECK(read->exit_status == 137);
  CHECK(read->failed_rank == 1);
  CHECK(read->asked_to_stop);
  CHECK(read->statuses == outcome.statuses);
  CHECK(read->tail == outcome.tail);
  REQUIRE_FALSE(read->hang.ok());
  CHECK(read->hang.error().message == "rank 1 was stopped");
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
  CHECK_FALSE(read_report(path));
}

TEST_CASE("what a restart may help is started again") {
  for (const int status : {74, 76, 81, 129, 137, 143}) CHECK(worth_restarting(status));
  for (const int status : {0, 1, 2, 3, 70, 75, 82, 83, 84, 127, 128}) CHECK_FALSE(worth_restarting(status));
}

TEST_CASE("a run that is started again continues from the newest checkpoint") {
  const Arguments resumed = {"run", "plans", "--checkpoint", "c", "--resume=latest-valid"};
  CHECK(resuming({"run", "plans", "--checkpoint", "c"}) == resumed);
  CHECK(resuming({"run", "plans", "--resume", "--checkpoint", "c"}) == resumed);
  CHECK(resuming({"run", "plans", "--resume=exact:7", "--checkpoint", "c"}) == resumed);
  CHECK(resuming({"run", "plans", "--resume", "exact:7", "--checkpoint", "c"}) == resumed);
  CHECK(resuming({"run", "--resume", "plans", "--checkpoint", "c"}) == resumed);
}

TEST_CASE("a run that has not begun is started again as it was") {
  const TempFolder folder;
  const Arguments arguments = {"run", "plans", "--checkpoint", "ck", "--resume=exact:2"};
  CHECK(checkpoints_of(arguments, folder.path()).empty());
  for (const char* name :
       {"step-000000002", "step-000000004", ".in-progress-step-000000006", "abandoned-step-000000006"})
    std::filesystem::create_directories(folder.path() / "ck" / name);
  const Arguments before = {"step-000000002", "step-000000004"};
  CHECK(checkpoints_of(arguments, folder.path()) == before);
  CHECK(checkpoints_of({"run", "--checkpoint=" + (folder.path() / "ck").string()}) == before);
  CHECK(checkpoints_of({"run", "plans"}, folder.path()).empty());
  CHECK_FALSE(has_begun(before, before));
  CHECK(has_begun(before, {"step-000000002"}));
  CHECK(has_begun({}, {}));  // it cannot take up another run
}

TEST_CASE("pauses double, up to five minutes and a quarter") {
  using std::chrono::milliseconds;
  CHECK(pause_before(1, 0) == milliseconds(1000));
  CHECK(pause_before(3, 0) == milliseconds(4000));
  CHECK(pause_before(3, 0.5) == milliseconds(4500));
  CHECK(pause_before(1000, 0) == milliseconds(300'000));
}

TEST_CASE("lines are passed on whole, and the last ones are kept") {
  int in[2];
  REQUIRE(pipe(in) == 0);
  std::string passed;
  Output output(in[0], [&passed](const std::string& line) { passed += "[rank 1] " + line; });
  const std::string text = "one\ntwo\nthr";
  REQUIRE(write(in[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  close(in[1]);
  output.pass_on();
  CHECK(output.source() == -1);
  CHECK(output.tail().size() == 2);
  output.finish();
  CHECK(output.tail().back() == "thr\n");
  CHECK(passed == "[rank 1] one\n[rank 1] two\n[rank 1] thr\n");
}

}  // namespace
}  // namespace piper::launcher
