// piperd: the daemon of a node, which runs the jobs that piper-launch submits. Exit status: 0 where it was asked to
// end, 1 refused, 2 command line, 70 a bug of piperd.
#include <CLI/CLI.hpp>

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>

#include "launcher/cluster/nodes.h"
#include "launcher/daemon/control_server.h"
#include "launcher/daemon/daemon.h"
#include "launcher/daemon/http_server.h"
#include "launcher/daemon/metrics.h"
#include "launcher/daemon/requests.h"
#include "launcher/find_program.h"
#include "launcher/signals.h"
#include "schemas/command_line/command_line.h"
#include "schemas/plan/file_bytes.h"

namespace piper::launcher {
namespace {

constexpr int kRefused = 1, kCommandLine = 2, kBug = 70;

struct Flags {
  std::string state = default_state_folder();
  int32_t slots = 0;
  uint16_t http_port = 9431;
  double log_mib = 64;
  int log_files = 4;
  // For several nodes:
  std::string nodes, node, listen, token;
  double lease_s = 10;
};

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

// Slurm's own names of its nodes need not be their hosts'.
std::string own_name(bool of_slurm) {
  const char* const node = of_slurm ? std::getenv("SLURMD_NODENAME") : nullptr;
  if (node != nullptr) return node;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return host;
}

Result<std::vector<NodeAddress>> list_of_nodes(const Flags& flags, int32_t slots, uint16_t port) {
  if (flags.nodes == "slurm") return slurm_node_list(port, slots);
  const auto file = plan::map_file(flags.nodes);
  if (!file.ok()) return Status::failure("L0138", file.error().message);
  return read_node_list(std::string(file->text()), flags.nodes);
}

// The options of the other nodes; this node's slots are what the list says.
Result<NodesOptions> nodes_options(const Flags& flags, DaemonOptions& daemon, const std::string& state) {
  NodesOptions options;
  if (flags.listen.empty() || flags.token.empty())
    return Status::failure("L0138",
                           "--nodes wants --listen ADDRESS[:PORT], where this node hears the others, and --token "
                           "FILE, by which they know each other");
  if (!read_address(flags.listen, options.listen_host, options.listen_port))
    return Status::failure("L0138", "--listen is '" + flags.listen + "', not ADDRESS[:PORT]");
  PIPER_ASSIGN(options.list, list_of_nodes(flags, daemon.slots, options.listen_port));
  options.own = flags.node.empty() ? own_name(flags.nodes == "slurm") : flags.node;
  const auto own = std::find_if(options.list.begin(), options.list.end(),
                                [&](const NodeAddress& node) { return node.name == options.own; });
  if (own == options.list.end())
    return Status::failure("L0138",
                           "this node, '" + options.own + "', is not in the list of nodes; --node says its name");
  daemon.slots = own->slots;
  options.token = flags.token;
  options.lease = std::chrono::milliseconds(static_cast<int64_t>(flags.lease_s * 1000));
  options.state_folder = state;
  options.launcher = daemon.launcher;
  options.log = daemon.log;
  options.blocked = daemon.blocked;
  return options;
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
  std::unique_ptr<Nodes> nodes;
  if (!flags.nodes.empty()) {
    PIPER_ASSIGN(NodesOptions others, nodes_options(flags, options, state.path()));
    PIPER_ASSIGN(nodes, Nodes::open(loop, std::move(others)));
  }
  Daemon daemon(loop, state, options);
  if (nodes) daemon.join(std::move(nodes));
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
  app.add_option(
      "--nodes", flags.nodes,
      "file of the nodes of jobs with --nnodes, a line each: NAME ADDRESS[:PORT] SLOTS; or 'slurm': those of "
      "this Slurm job, with --slots each");
  app.add_option("--node", flags.node, "the name of this node among them; default: the host's");
  app.add_option("--listen", flags.listen, "ADDRESS[:PORT] of this node, for the others; the port is 9432 by default");
  app.add_option("--token", flags.token, "file of mode 0600 with a secret of 32 bytes or more, the same on all nodes");
  app.add_option(
         "--lease", flags.lease_s,
         "seconds without an answer from which on a node counts as lost, and ends its parts of jobs; default 10")
      ->check(CLI::Range(1.0, 3600.0));
  piper::command_line::add_version(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return piper::command_line::end(app, error, kCommandLine);
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
