// Prices a bundle for a machine: kernel calls by roofline, collectives and messages by latency and bandwidth of the
// links that they take, which they share with whatever goes on at the same time. In microseconds.
//
// A kernel call takes the larger of flops / (peak x efficiency) and bytes / (bandwidth x efficiency), and
// Machine::kernel_us. Calls of a run follow each other; two runs of a rank at one time share its device.
// Collectives of n members on N nodes take the fastest of the machine's algorithms, each by itself. A ring goes over
// members in the order of their nodes (Thakur, Rabenseifner, Gropp 2005): all-reduce 2 (n - N) steps inside of nodes, 2
// (N - 1) between them, and 2 (n - 1) / n of the bytes through every link; all-gather and reduce-scatter half of that.
// A tree (Sanders, Speck, Traeff 2009), for all-reduce: 2 (n / N - 1) steps inside, 2 log2 N between, and twice the
// bytes through every link. These are the counts of NCCL's own model (src/graph/tuning.cc). Where a machine has direct
// ones (machine.h), all-gather and reduce-scatter are exchanges, and all-reduce is two. An exchange is n - 1 messages
// of each member, which are sent at once: one latency, the longest, and all of their bytes through the member's port.
// What is summed in pieces (schemas/plan/all_reduce_scratch.h) takes a latency more for every piece after the first.
// What leaves a node is spread over the ports of its members. While bytes move on a GPU, its kernels have the
// multiprocessors that the transfer leaves.
#pragma once

#include <map>
#include <set>
#include <string>

#include "schemas/plan/kernel_times.h"
#include "schemas/timeline/kernel_work.h"
#include "schemas/timeline/kinds.h"
#include "schemas/timeline/machine.h"
#include "schemas/timeline/play.h"

namespace piper::timeline {

// What calls without a measured time take beside their roofline, by the kernel's name, or by kEveryKernel where it is
// not there; nothing: the roofline itself.
using RooflineFactors = std::map<std::string, double>;
inline constexpr const char* kEveryKernel = "";

class Priced : public Pricing {
 public:
  // `efficiency`: factor on the efficiencies of all kernels, for the range of an estimate. `measured` stand for the
  // roofline where they have a call; what ranks lose by sharing memory is in them. `bundle` must outlive it.
  Priced(const plan::Bundle& bundle, const Machine& machine, double efficiency = 1,
         const plan::KernelTimes& measured = {}, const RooflineFactors& factors = {});
  // For kinds_on(): what a transfer takes of the members of a kind it takes of the rank that stands for them.
  Priced(const Kinds& kinds, const Machine& machine, double efficiency = 1, const plan::KernelTimes& measured = {},
         const RooflineFactors& factors = {});

  size_t resources() const override;
  Task local(size_t plan, size_t instruction) const override;
  Task transfer(std::span<const TransferEnd> ends) const override;
  double issued(size_t plan, size_t instruction) const override;

  // For one kernel call, alone on the device, by the roofline or by its measured time.
  double call_us(const plan::KernelCall& call) const;
  double roofline_us(const plan::KernelCall& call) const { return roofline(call).us; }
  // Product flops of the kernel calls of one step, all loaded ranks, or all that they stand for: more than the model's
  // where work is done again.
  double flops() const { return flops_; }
  // Distinct kernel calls of the bundle's programs, and how many of them are priced by a measured time.
  size_t distinct_calls() const { return keys_.size(); }
  size_t measured_calls() const { return measured_calls_; }
  // The type that most of them are in; f32 where there are none.
  DType product_type() const { return product_type_; }

 private:
  struct ProgramPrice {
    double us = 0;         // all calls, alone on the device
    double memory_us = 0;  // of the memory's whole bandwidth
    double flops = 0;
    std::array<double, kNumDTypes> by_type{};
    size_t calls = 0;
  };
  // For one call: what it takes alone by the roofline, and what it would take of the memory's whole bandwidth alone.
  struct Roofline {
    double us = 0, memory_us = 0;
  };
  Roofline roofline(const KernelWork& work) const;
  Roofline roofline(const plan::KernelCall& call) const;  // of one that stands for others: their sum
  double factor_of(const std::string& kernel) const;
  ProgramPrice price(const plan::Program& program);
  double peak(DType type) const;
  // `num_ranks`: that each loaded rank stands for.
  Priced(const plan::Bundle& bundle, const std::vector<int64_t>& num_ranks, const Machine& machine, double efficiency,
         const plan::KernelTimes& measured, const RooflineFactors& factors);
  void count_work(const std::vector<int64_t>& num_ranks);
  void stand_for(const Kinds& kinds);
  int32_t stand_in(int32_t resource) const {
    return stand_ins_.empty() ? resource : stand_ins_[static_cast<size_t>(resource)];
  }
  // The task of what takes so many microseconds of each resource. Adds up what appears twice.
  Task shared_task(double fixed_us, std::vector<Use> resource_us) const;
  // Adds the time of `bytes` that go from a rank, or come to it, at a level.
  void use_inside(std::vector<Use>& uses, int32_t rank, double out_bytes, double in_bytes) const;
  void use_between(std::vector<Use>& uses, const std::vector<int32_t>& ranks_of_node, double bytes) const;
  Task message(int32_t from, int32_t to, double bytes) const;
  // `pieces`: in which direct sums are done.
  Task collective(const std::vector<int32_t>& members, double rounds, double part_bytes, int64_t pieces) const;
  Task by_algorithm(const Algorithm& algorithm, const std::vector<int32_t>& members, double rounds,
                    double part_bytes) const;
  // Adds what the transfer takes of its members' devices.
  void use_multiprocessors(Task& task, const std::vector<int32_t>& members, int32_t max_ctas) const;
  // `latencies`: of messages that are sent after one another.
  Task exchange(const std::vector<int32_t>& members, double rounds, double part_bytes, double latencies) const;

  int32_t node_of(int32_t rank) const { return rank / machine_.ranks_per_node; }
  std::map<int32_t, std::vector<int32_t>> by_node(const std::vector<int32_t>& members) const;
  int32_t processor_of(int32_t rank) const;
  int32_t memory_of(int32_t rank) const;
  int32_t port(int32_t rank, bool between, bool in) const;

  const plan::Bundle& bundle_;
  Machine machine_;
  double efficiency_;
  plan::KernelTimes measured_;
  RooflineFactors factors_;
  RouterLoad load_;
  int32_t num_nodes_ = 1;
  std::vector<ProgramPrice> prices_;         // by program
  std::vector<std::vector<double>> issued_;  // [loaded rank][instruction]; empty where the host costs nothing
  std::vector<int32_t> stand_ins_;  // [resource of a rank] that of the rank of its kind that is played; empty: itself
  std::set<std::string> keys_;
  size_t measured_calls_ = 0;
  double flops_ = 0;
  DType product_type_ = DType::kF32;
};

// Never fails for a bundle that verify() accepts.
Result<Timeline> simulate_on(const plan::Bundle& bundle, const Priced& prices);
Timeline simulate_on(const Kinds& kinds, const Priced& prices);  // of kinds.bundle; `prices`: of these kinds

}  // namespace piper::timeline
