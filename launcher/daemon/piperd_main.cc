// piperd: the daemon of a node, which runs the jobs that piper-launch submits. Exit status: 0 where it was asked to
// end, 1 refused, 2 command line, 70 a bug of piperd.
#include <CLI/CLI.hpp>

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdio>

#include "launcher/daemon/control_server.h"
#include "launcher/daemon/daemon.h"
#include "launcher/daemon/http_server.h"
#include "launcher/daemon/metrics.h"
#include "launcher/daemon/requests.h"
#include "launcher/find_program.h"
#include "launcher/signals.h"

namespace piper::launcher {
namespace {

constexpr int kRefused = 1, kCommandLine = 2, kBug = 70;

struct Flags {
  std::string state = default_state_folder();
  int32_t slots = 0;
  uint16_t http_port = 9431;
  double log_mib = 64;
  int log_files = 4;
};

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

Status run(const Flags& flags) {
  if (flags.state.empty())
    return Status::failure("L0133", "there is no home folder to keep jobs in; give one with --state");
  PIPER_ASSIGN(const StateFolder state, StateFolder::open(flags.state));
  PIPER_ASSIGN(Signals signals, Signals::open());
  DaemonOptions options;
  options.slots = flags.slots > 0 ? flags.slots : usable_cores();
  options.log = {static_cast<int64_t>(flags.log_mib * (1 << 20)), flags.log_files};
  PIPER_ASSIGN(options.launcher, find_beside("piper-launch"));
  options.blocked = signals.before();

  EventLoop loop;
  Daemon daemon(loop, state, options);
  PIPER_ASSIGN(const std::unique_ptr<HttpServer> http, HttpServer::open(loop, flags.http_port,
                                                                        {[&daemon] { return daemon.disk_failure(); },
                                                                         [&daemon] { return metrics_text(daemon); }}));
  const uint16_t port = http->port();
  PIPER_RETURN_IF_ERROR(daemon.open());
  PIPER_ASSIGN(const std::unique_ptr<ControlServer> control,
               ControlServer::open(loop, state.socket(), [&daemon, port](const std::string& request) {
                 return answer_request(daemon, request, port);
               }));
  const auto ends = loop.when_readable(signals.descriptor(), [&] {
    while (const int number = signals.take())
      if (number == SIGTERM || number == SIGINT) daemon.end();
  });
  std::fprintf(stderr, "piperd: %d slots, jobs in %s, http://127.0.0.1:%d/metrics\n", options.slots,
               state.path().c_str(), int{port});
  loop.run();
  return {};
}

}  // namespace
}  // namespace piper::launcher

int main(int argc, char** argv) {
  using namespace piper::launcher;
  CLI::App app{"Runs the jobs of this node that piper-launch submit queues.", "piperd"};
  Flags flags;
  app.add_option("--state", flags.state,
                 "folder of jobs, logs and the socket; default: $PIPERD_STATE, else ~/.local/state/piperd/HOST");
  app.add_option("--slots", flags.slots, "ranks at a time; default: as many as there are cores")
      ->check(CLI::Range(1, 65536));
  app.add_option("--http-port", flags.http_port,
                 "of 127.0.0.1, for /healthz and /metrics; 0: a free one; default 9431");
  app.add_option("--log-mib", flags.log_mib, "a job's log begins a new file at this size; default 64")
      ->check(CLI::Range(0.001, 1e6));
  app.add_option("--log-files", flags.log_files, "as many are kept of each job; default 4")->check(CLI::Range(1, 1000));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kCommandLine;
  }
  umask(077);
  try {
    const piper::Status status = run(flags);
    if (status.ok()) return 0;
    std::fprintf(stderr, "piperd: error[%s]: %s\n", status.error().code.c_str(), status.error().message.c_str());
    return kRefused;
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "piperd: bug in piperd: %s\n", bug.what());
    return kBug;
  }
}
