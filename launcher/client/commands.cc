#include "launcher/client/commands.h"

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "launcher/client/ask.h"
#include "launcher/client/status_text.h"
#include "launcher/daemon/state_folder.h"
#include "launcher/launch_plan.h"
#include "launcher/passed_environment.h"
#include "launcher/restarts.h"
#include "schemas/command_line/command_line.h"

namespace piper::launcher {

namespace {

using Json = nlohmann::json;
constexpr int kRefused = 1, kCommandLine = 2;
constexpr std::chrono::milliseconds kFollow{200};

int refuse(const Error& error) {
  std::fprintf(stderr, "piper-launch: error[%s]: %s\n", error.code.c_str(), error.message.c_str());
  return kRefused;
}

struct Flags {
  std::string state = default_state_folder();
  int64_t job = 0;
  bool json = false, follow = false, off = false;
  int32_t rank = -1;
  // submit
  LaunchOptions launch;
  std::string name;
  std::vector<std::string> environment;
  double grace_s = 30;
  std::optional<int32_t> restarts;
  int64_t window_s = 3600;
};

// The answer, where it is none of a failure.
Result<Json> ask(const Flags& flags, const Json& request) {
  if (flags.state.empty()) return Status::failure("L0131", "there is no home folder; say --state");
  try {
    PIPER_ASSIGN(const std::string text, ask_daemon(flags.state, request.dump()));
    Json answer = Json::parse(text);
    if (!answer.contains("error")) return answer;
    return Status::failure(answer.at("error").at("code").get<std::string>(),
                           answer.at("error").at("message").get<std::string>());
  } catch (const Json::exception& fault) {
    return Status::failure("L0131", std::string("what was asked or answered is no text: ") + fault.what());
  }
}

Result<Json> submission(Flags& flags) {
  flags.launch.master = flags.launch.nodes > 1 ? "node:1" : "";  // where they meet is the daemons' matter
  PIPER_ASSIGN(LaunchPlan plan, make_launch_plan(flags.launch));
  if (plan.over_mpi)
    return Status::failure("L0101", "piperd starts the ranks itself: submit the program without mpirun");
  PIPER_ASSIGN(const std::vector<std::string> environment, passed_environment(flags.environment));
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  if (error) return Status::failure("L0101", "the current folder cannot be read: " + error.message());
  plan.arguments[0] = (here / plan.arguments[0]).lexically_normal().string();
  const bool saves = has_flag(plan.arguments, "--checkpoint");
  if (flags.restarts.value_or(0) > 0 && !saves)
    return Status::failure("L0105",
                           "--restarts wants --checkpoint among the program's arguments: a run that saves "
                           "nothing would begin anew each time");
  return Json{{"op", "submit"},
              {"name", flags.name.empty() ? std::filesystem::path(plan.arguments[0]).filename().string() : flags.name},
              {"arguments", plan.arguments},
              {"folder", here.string()},
              {"environment", environment},
              {"ranks", plan.world_size},
              {"nodes", flags.launch.nodes},
              {"grace_s", static_cast<int64_t>(flags.grace_s)},
              {"restarts", flags.restarts.value_or(saves ? 5 : 0)},
              {"window_s", flags.window_s}};
}

int submit(Flags& flags) {
  const auto request = submission(flags);
  if (!request.ok()) return refuse(request.error());
  const auto answer = ask(flags, *request);
  if (!answer.ok()) return refuse(answer.error());
  std::printf("job %lld\n", static_cast<long long>(answer->at("job").get<int64_t>()));
  return 0;
}

int status(const Flags& flags) {
  Json request = {{"op", "status"}};
  if (flags.job > 0) request["job"] = flags.job;
  const auto answer = ask(flags, request);
  if (!answer.ok()) return refuse(answer.error());
  std::fputs((flags.json ? answer->dump() + "\n" : status_text(answer->dump())).c_str(), stdout);
  return 0;
}

// Lines of one rank alone, or all. What comes in pieces is put together first.
class Lines {
 public:
  explicit Lines(int32_t rank) : tag_(rank < 0 ? "" : "[rank " + std::to_string(rank) + "] ") {}
  void print(const std::string& piece) {
    for (const char c : piece) {
      line_ += c;
      if (c == '\n') flush();
    }
    std::fflush(stdout);
  }
  void flush() {
    if (line_.compare(0, tag_.size(), tag_) == 0) std::fputs(line_.c_str(), stdout);
    line_.clear();
  }

 private:
  std::string tag_, line_;
};

int logs(const Flags& flags) {
  Lines lines(flags.rank);
  for (int64_t from = 0;;) {
    const auto answer = ask(flags, {{"op", "logs"}, {"job", flags.job}, {"from", from}});
    if (!answer.ok()) return refuse(answer.error());
    const auto text = answer->at("text").get<std::string>();
    lines.print(text);
    from = answer->at("next").get<int64_t>();
    if (!text.empty()) continue;
    if (!flags.follow || answer->at("ended").get<bool>()) break;
    std::this_thread::sleep_for(kFollow);
  }
  lines.flush();
  return 0;
}

int cancel(const Flags& flags) {
  const auto answer = ask(flags, {{"op", "cancel"}, {"job", flags.job}});
  return answer.ok() ? 0 : refuse(answer.error());
}

// Until nothing runs any more.
int drain(const Flags& flags) {
  if (const auto answer = ask(flags, {{"op", "drain"}, {"on", !flags.off}}); !answer.ok())
    return refuse(answer.error());
  while (!flags.off) {
    const auto answer = ask(flags, {{"op", "status"}});
    if (!answer.ok()) return refuse(answer.error());
    if (!answer->at("draining").get<bool>() || answer->at("slots_used").get<int64_t>() == 0) break;
    std::this_thread::sleep_for(kFollow);
  }
  return 0;
}

void declare_submit(CLI::App& app, Flags& flags) {
  app.prefix_command();
  app.footer("PROGRAM [ARGUMENTS]... come after the options, or after --.");
  app.add_option("-n,--ranks", flags.launch.ranks,
                 "ranks of each node; default: as many as the plan bundle has, divided by --nnodes")
      ->check(CLI::Range(1, 65536));
  app.add_option("--nnodes", flags.launch.nodes,
                 "nodes of the job, of those that piperd was started with; default 1, its own")
      ->check(CLI::Range(1, 65536));
  app.add_option("--name", flags.name, "what status calls it; default: the program's name");
  app.add_option("--env", flags.environment, "pass on this variable, too; may be given several times")
      ->allow_extra_args(false);
  app.add_option("--grace", flags.grace_s, "seconds from SIGTERM to SIGKILL; default 30")->check(CLI::Range(0.0, 1e6));
  app.add_option("--restarts", flags.restarts,
                 "start the ranks again up to this many times in --window; default 5 with --checkpoint, else 0")
      ->check(CLI::Range(0, 1000));
  app.add_option("--window", flags.window_s, "seconds, default 3600")->check(CLI::Range(1, 10'000'000));
}

void declare(const std::string& command, CLI::App& app, Flags& flags) {
  app.add_option("--state", flags.state, "piperd's folder; default: $PIPERD_STATE, else ~/.local/state/piperd/HOST");
  if (command == "submit") return declare_submit(app, flags);
  if (command == "drain") {
    app.add_flag("--off", flags.off, "start jobs again");
    return;
  }
  auto* const job = app.add_option("JOB", flags.job, "its number")->check(CLI::Range(int64_t{1}, INT64_MAX));
  if (command == "status") {
    app.add_flag("--json", flags.json, "as piperd says it");
    return;
  }
  job->required();
  if (command == "cancel") return;
  app.add_flag("-f,--follow", flags.follow, "continue until the job has ended");
  app.add_option("--rank", flags.rank, "only lines of this rank")->check(CLI::Range(0, 65535));
}

int dispatch(const std::string& command, Flags& flags) {
  if (command == "submit") return submit(flags);
  if (command == "status") return status(flags);
  if (command == "logs") return logs(flags);
  if (command == "cancel") return cancel(flags);
  return drain(flags);
}

constexpr struct {
  const char *name, *what;
} kCommands[] = {{"submit", "Queues a job at this node's piperd and prints its number."},
                 {"status", "What piperd runs, or how one job is."},
                 {"logs", "What the ranks of a job printed."},
                 {"cancel", "Ends a job; once more, at once."},
                 {"drain",
                  "Starts no more jobs. Running jobs with --checkpoint save a checkpoint and return to the queue; jobs "
                  "without --checkpoint run to their end, and this command waits for them."}};

}  // namespace

bool is_command(const std::string& word) {
  return std::any_of(std::begin(kCommands), std::end(kCommands), [&](const auto& c) { return word == c.name; });
}

int run_command(int argc, const char* const* argv) {
  const std::string command = argv[1];
  const auto* const entry =
      std::find_if(std::begin(kCommands), std::end(kCommands), [&](const auto& c) { return command == c.name; });
  CLI::App app{entry->what, "piper-launch " + command};
  Flags flags;
  declare(command, app, flags);
  command_line::add_version(app);
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::ParseError& error) {
    return command_line::end(app, error, kCommandLine);
  }
  if (command == "submit" && !take_program(app.remaining(), command_line::unexpected(app), flags.launch))
    return kCommandLine;
  return dispatch(command, flags);
}

}  // namespace piper::launcher
