// A machine that plans are priced for: nodes of devices, one a rank, and what the calls and messages of a plan have of
// them. Read from strategies/targets/*.yaml by compiler/machine; every number there names its source. Plain data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schemas/plan/dtype.h"
#include "schemas/plan/plan.h"

namespace piper::timeline {

inline constexpr size_t kNumDTypes = static_cast<size_t>(DType::kBool) + 1;

// The links of one level: inside of a node, or between nodes.
struct LinkLevel {
  double latency_us = 0;        // of one message, or of one step of a ring
  double bytes_per_second = 0;  // of one port, each way
  int32_t ports = 1;            // of a node; ranks of the node share them evenly, in their order
};

// How sums and gathers go among the ranks of a communicator.
enum class Collectives : uint8_t {
  kRings,   // by the fastest of Machine::algorithms: libraries of GPUs
  kDirect,  // every rank sends each other one its part at once, twice for a sum: piper's own on CPU ranks
};
// One way of a library to do a sum or a gather.
struct Algorithm {
  enum class Shape : uint8_t {
    kRing,  // from neighbour to neighbour, a step a part
    kTree,  // sums alone: up and down two binary trees over the nodes, with a chain of the ranks inside of each
  };
  Shape shape = Shape::kRing;
  double start_us = 0;                   // before the first step
  double inside_us = 0, between_us = 0;  // of a step inside of a node, between nodes
  double bandwidth = 1;                  // the part of the links' that it reaches
};

struct Machine {
  std::string name;
  plan::DeviceKind device = plan::DeviceKind::kCpu;  // plans of another one have no price here
  int32_t ranks_per_node = 1;
  // For the processor, or of one core of it: floating-point operations a second by the type of a product's operands. A
  // type that is not there has 0; it is priced as f32.
  std::array<double, kNumDTypes> flops{};
  double memory_bytes = 0;             // for one rank
  double memory_bytes_per_second = 0;  // of a rank's device; with cores, of the node, which its ranks share
  double core_bytes_per_second = 0;    // what one of the cores can have of that alone; 0: all
  int32_t cores = 0;                   // of a node, shared by its ranks, a run on one; 0: every rank has its own device
  // The part of the peak that a kernel of this kind reaches.
  double product_efficiency = 1, grouped_efficiency = 1, attention_efficiency = 1, memory_efficiency = 1;
  double kernel_us = 0;  // between two kernels on the device; every call takes it beside its work
  double host_us = 0;    // that the host needs to issue a kernel call or a transfer; streams do not wait for less
  LinkLevel inside, between;
  Collectives collectives = Collectives::kRings;
  std::vector<Algorithm> algorithms;  // empty: a ring whose steps have the latencies of the links
  // Multiprocessors of a rank's device, and those that a transfer under way takes from its kernels where its stream has
  // no max_ctas; 0: transfers take none.
  int32_t multiprocessors = 0, of_a_transfer = 0;
  // Published training runs, nine in ten, took between so many times the predicted time; nothing: not known.
  std::optional<std::pair<double, double>> nine_of_ten;
};

}  // namespace piper::timeline
