// The nodes among which piperd spreads jobs: their names, where their daemons listen, how many ranks each runs at a
// time. From a file, or from the variables of a Slurm job. It asks no node anything.
//
//   # name  address             slots
//   node1   10.0.0.1:9432       8
//   node2   node2.cluster:9432  8
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/base/status.h"

namespace piper::launcher {

struct NodeAddress {
  std::string name;  // letters, digits, '-', '_', '.': at most 64
  std::string host;  // a name or an address; IPv6 without brackets
  uint16_t port = 0;
  int32_t slots = 1;
};

inline constexpr uint16_t kNodePort = 9432;

// HOST, HOST:PORT or [IPv6]:PORT. False: it is none.
bool read_address(const std::string& text, std::string& host, uint16_t& port);

// `where`: the file, for messages. L0138: a line that is none of a node, a name or an address that appears twice, no
// node at all.
Result<std::vector<NodeAddress>> read_node_list(const std::string& text, const std::string& where);

// The nodes of the Slurm job that this process belongs to, as `scontrol show hostnames` says it: names are hosts, all
// at `port`, with `slots` each. L0138: this is no job of Slurm, or scontrol does not answer.
Result<std::vector<NodeAddress>> slurm_node_list(uint16_t port, int32_t slots);

}  // namespace piper::launcher
