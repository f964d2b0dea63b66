// piper-launch: starts the ranks of a node, without MPI, and watches them. Exit status: that of the first rank that
// failed (128 + n where signal n ended it), 0 where none did; 1 refused before a rank began, 2 command line, 70 a bug
// of piper-launch.
#include <CLI/CLI.hpp>

#include <poll.h>

#include <cstdio>
#include <random>

#include "launcher/client/commands.h"
#include "launcher/exit_text.h"
#include "launcher/report.h"
#include "launcher/restarts.h"
#include "launcher/supervisor.h"
#include "schemas/command_line/command_line.h"

namespace piper::launcher {
namespace {

constexpr int kRefused = 1, kCommandLine = 2, kBug = 70;

void print_error(const Error& error) {
  std::fprintf(stderr, "piper-launch: error[%s]: %s\n", error.code.c_str(), error.message.c_str());
}

void tell_failure(const LaunchPlan& plan, const Outcome& outcome) {
  const std::string rank = "rank " + std::to_string(outcome.failed_rank);
  if (!outcome.tail.empty() && plan.ranks_here > 1) {
    std::fprintf(stderr, "piper-launch: the last lines of %s:\n", rank.c_str());
    for (const std::string& line : outcome.tail) std::fprintf(stderr, "  %s", line.c_str());
  }
  print_error({"L0103", rank + " ended first, with " + exit_text(outcome.exit_status), false});
}

// 0, or the signal by which somebody wants the run to end meanwhile.
int pause_for(std::chrono::milliseconds time, Signals& signals) {
  const auto end = std::chrono::steady_clock::now() + time;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return 0;
    pollfd descriptor{signals.descriptor(), POLLIN, 0};
    (void)poll(&descriptor, 1, static_cast<int>(left.count()) + 1);
    const int number = signals.take();
    if (number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGUSR1) return number;
  }
}

int run(const LaunchOptions& options) {
  const auto plan = make_launch_plan(options);
  if (!plan.ok()) {
    print_error(plan.error());
    return kRefused;
  }
  auto signals = Signals::open();
  if (!signals.ok()) {
    print_error(signals.error());
    return kRefused;
  }
  std::vector<std::string> arguments = plan->arguments;
  const std::vector<std::string> before = checkpoints_of(arguments);
  std::mt19937 chance(std::random_device{}());
  for (int32_t attempt = 0;; ++attempt) {
    const auto outcome = Supervisor(*plan, *signals).run(arguments, plan->attempt + attempt);
    if (!outcome.ok()) {
      print_error(outcome.error());
      return kRefused;
    }
    write_report(plan->report, *outcome);
    if (outcome->exit_status == 0) return 0;
    // The ranks of a run that was asked to end have reported what became of it.
    if (!outcome->asked_to_stop && outcome->exit_status != kStoppedOnRequest && outcome->hang.ok())
      tell_failure(*plan, *outcome);
    // A rank that had no handler for the signal yet had nothing to save either.
    if (outcome->asked_to_save && outcome->exit_status == 128 + SIGUSR1) return kStoppedOnRequest;
    if (outcome->asked_to_stop || outcome->asked_to_save || attempt >= plan->restarts ||
        !worth_restarting(outcome->exit_status))
      return outcome->exit_status;
    const auto pause = pause_before(attempt + 1, std::uniform_real_distribution<double>(0, 1)(chance));
    const bool begun = has_begun(before, checkpoints_of(plan->arguments));
    std::fprintf(stderr, "piper-launch: restart %d of %d in %.1f s, %s\n", attempt + 1, plan->restarts,
                 static_cast<double>(pause.count()) / 1e3,
                 begun ? "from the newest valid checkpoint"
                       : "with the same arguments as before: the run has not saved a checkpoint yet");
    if (const int number = pause_for(pause, *signals); number != 0)
      return number == SIGUSR1 ? kStoppedOnRequest : outcome->exit_status;
    arguments = begun ? resuming(plan->arguments) : plan->arguments;
  }
}

struct Seconds {
  double grace = 30, hang_after = 30, hang_first = 300, hang_step = 0;
};

void declare_flags(CLI::App& app, LaunchOptions& options, Seconds& seconds) {
  app.prefix_command();
  app.footer(
      "PROGRAM [ARGUMENTS]... come after the options, or after --.\n"
      "Jobs of piperd: piper-launch submit, status, logs, cancel, drain; each has a --help.");
  app.add_option("-n,--ranks", options.ranks,
                 "ranks of this node; default: as many as the plan bundle has, divided by --nnodes")
      ->check(CLI::Range(1, 65536));
  app.add_option("--nnodes", options.nodes, "nodes of the run, each with a piper-launch of its own; default 1")
      ->check(CLI::Range(1, 65536));
  app.add_option("--node-rank", options.node, "which of them this is, from 0")->check(CLI::Range(0, 65535));
  app.add_option("--master", options.master, "HOST:PORT of the first node, where the ranks meet");
  // What piperd starts it with is nobody else's: not in the help.
  app.add_option("--lease", options.lease, "of piperd: a file that says until when the ranks may live")->group("");
  app.add_option("--store-socket", options.store_socket,
                 "of piperd: a descriptor that listens at the port of --master, for rank 0")
      ->check(CLI::Range(0, 1'000'000))
      ->group("");
  app.add_flag("--tag-output", options.tag_output, "put '[rank N] ' before each line");
  app.add_option("--grace", seconds.grace,
                 "seconds from a SIGTERM or SIGINT, which is passed on, to SIGKILL; default 30")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--restarts", options.restarts,
                 "start the ranks again up to this many times, from the newest valid checkpoint, where that can help")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--hang-after", seconds.hang_after,
                 "seconds without progress of any rank after which a run counts as hanging; 0: never; default 30")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--hang-first", seconds.hang_first,
                 "the same until the first step has ended, and for the first checkpoint and evaluation; default 300")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--hang-step", seconds.hang_step,
                 "predicted seconds of a step (piper-plan simulate): the first step, too, hangs after --hang-after, or "
                 "--hang-factor times this; default 0, unknown")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--hang-factor", options.hangs.factor,
                 "and at least so many times the longest step, checkpoint or evaluation so far; default 10")
      ->check(CLI::Range(1.0, 1e6));
  app.add_option("--incidents", options.hangs.incidents,
                 "the folder in which the rings of a hang are kept; default piper-incidents");
  app.add_option("--attempt", options.attempt, "the number of the first attempt, as ranks see it; default 0")
      ->check(CLI::Range(0, 1'000'000'000))
      ->group("");
  app.add_option("--report", options.report, "write a JSON file on how the ranks of this node ended");
}

template <class Call>
int guarded(Call call) {
  try {
    return call();
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "piper-launch: bug in piper-launch: %s\n", bug.what());
    return kBug;
  }
}

}  // namespace
}  // namespace piper::launcher

int main(int argc, char** argv) {
  using namespace piper::launcher;
  if (argc > 1 && is_command(argv[1])) return guarded([&] { return run_command(argc, argv); });
  CLI::App app{"Starts the ranks of a run on this node and watches them.", "piper-launch"};
  LaunchOptions options;
  Seconds seconds;
  declare_flags(app, options, seconds);
  piper::command_line::add_version(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return piper::command_line::end(app, error, kCommandLine);
  }
  if (!take_program(app.remaining(), piper::command_line::unexpected(app), options)) return kCommandLine;
  const auto milliseconds = [](double s) { return std::chrono::milliseconds(static_cast<int64_t>(s * 1000)); };
  options.grace = milliseconds(seconds.grace);
  options.hangs.after = milliseconds(seconds.hang_after);
  options.hangs.first = milliseconds(seconds.hang_first);
  options.hangs.step = milliseconds(seconds.hang_step);
  return guarded([&] { return run(options); });
}
