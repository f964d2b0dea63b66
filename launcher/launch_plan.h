// What one piper-launch starts: which ranks of how many, what each gets, where they meet. Made from the command line
// and the bundle's manifest; it starts nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/hang_watch.h"
#include "schemas/base/status.h"

namespace piper::launcher {

// As they are on the command line.
struct LaunchOptions {
  std::optional<int32_t> ranks;  // of this node
  int32_t nodes = 1, node = 0;
  std::string master;                  // "HOST:PORT", "" for one node
  std::string lease;                   // a file of piperd, by which the ranks live; "": by nobody's
  int store_socket = -1;               // an inherited descriptor that listens at --master's port; of node 0
  std::vector<std::string> arguments;  // the program and its own
  bool tag_output = false;
  std::chrono::milliseconds grace{30000};
  int32_t restarts = 0;
  HangOptions hangs;
  int32_t attempt = 0;  // the number of the first one
  std::string report;   // a file, of how the last attempt ended; "": none
};

struct LaunchPlan {
  std::vector<std::string> arguments;  // the first is the path of the program
  int32_t world_size = 1, first_rank = 0, ranks_here = 1;
  std::string master_host;   // loopback for one node
  uint16_t master_port = 0;  // 0: a free one of this machine
  std::string lease;         // a file of piperd; empty: none
  int store_socket = -1;     // that listens there, inherited; -1: none
  std::string run_id;
  bool tag_output = false;
  std::chrono::milliseconds grace{30000};
  int32_t restarts = 0, attempt = 0;
  std::string report;
  bool over_mpi = false;  // the program is mpirun: one process, which starts the ranks itself
  std::string bundle;     // among the arguments; empty: none
  HangOptions hangs;
};

// The program and its arguments, from what of a command line is no option of piper-launch; "--" may come first.
// `unexpected`: what is wrong with the first of them where it is an option. // False: there is none, which has been
// said on standard error.
bool take_program(std::vector<std::string> words, const std::string& unexpected, LaunchOptions& options);

// L0101: nothing says how many ranks there are, or it does not fit; L0102: no such program; L0105: restarts without
// checkpoints or with several nodes.
Result<LaunchPlan> make_launch_plan(const LaunchOptions& options);

// "NAME=value" of rank `rank` in attempt `attempt`, `port` being where the ranks meet, `rings` the folder of their
// rings; empty: nobody watches them.
std::vector<std::string> variables_of(const LaunchPlan& plan, int32_t rank, int32_t attempt, uint16_t port,
                                      const std::string& rings);

}  // namespace piper::launcher
