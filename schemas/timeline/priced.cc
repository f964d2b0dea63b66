#include "schemas/timeline/priced.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "schemas/plan/actions.h"
#include "schemas/plan/all_reduce_scratch.h"
#include "schemas/plan/call_key.h"
#include "schemas/plan/head_blocks.h"
#include "schemas/plan/kernels.h"

namespace piper::timeline {
namespace {

using namespace plan;

const Instruction& instruction_of(const Bundle& bundle, const TransferEnd& end) {
  return bundle.ranks[static_cast<size_t>(end.plan)].instructions[static_cast<size_t>(end.instruction)];
}

}  // namespace

Priced::Priced(const Bundle& bundle, const std::vector<int64_t>& num_ranks, const Machine& machine, double efficiency,
               const KernelTimes& measured, const RooflineFactors& factors)
    : bundle_(bundle),
      machine_(machine),
      efficiency_(efficiency),
      measured_(measured),
      factors_(factors),
      load_(balanced_load(bundle)) {
  num_nodes_ = node_of(std::max(1, bundle.manifest.world_size) - 1) + 1;
  for (const Program& program : bundle.programs) prices_.push_back(price(program));
  count_work(num_ranks);
}

Priced::Priced(const Bundle& bundle, const Machine& machine, double efficiency, const KernelTimes& measured,
               const RooflineFactors& factors)
    : Priced(bundle, std::vector<int64_t>(bundle.ranks.size(), 1), machine, efficiency, measured, factors) {}

Priced::Priced(const Kinds& kinds, const Machine& machine, double efficiency, const KernelTimes& measured,
               const RooflineFactors& factors)
    : Priced(kinds.bundle, kinds.num_ranks, machine, efficiency, measured, factors) {
  if (kinds.bundle.ranks.size() < kinds.kind_of.size()) stand_for(kinds);
}

void Priced::count_work(const std::vector<int64_t>& num_ranks) {
  std::array<double, kNumDTypes> by_type{};
  for (size_t p = 0; p < bundle_.ranks.size(); ++p) {
    const auto ranks = static_cast<double>(num_ranks[p]);
    double host = 0;
    if (machine_.host_us > 0) issued_.emplace_back();
    for (const Instruction& instruction : bundle_.ranks[p].instructions) {
      const int32_t program = launch_of(instruction.action).program;
      double calls = 1;
      if (program >= 0) {
        const ProgramPrice& known = prices_[static_cast<size_t>(program)];
        flops_ += ranks * known.flops;
        for (size_t t = 0; t < kNumDTypes; ++t) by_type[t] += ranks * known.by_type[t];
        calls = static_cast<double>(known.calls);
      }
      if (machine_.host_us == 0) continue;
      // The first call of a run can go on while the host issues the others.
      issued_.back().push_back(host + machine_.host_us);
      host += calls * machine_.host_us;
    }
  }
  const auto most = std::max_element(by_type.begin(), by_type.end());
  if (*most > 0) product_type_ = static_cast<DType>(most - by_type.begin());
}

double Priced::peak(DType type) const {
  const double own = machine_.flops[static_cast<size_t>(type)];
  return own > 0 ? own : machine_.flops[static_cast<size_t>(DType::kF32)];
}

Priced::Roofline Priced::roofline(const KernelWork& work) const {
  double part = machine_.product_efficiency;
  if (work.kind == KernelKind::kGroupedProduct) part = machine_.grouped_efficiency;
  if (work.kind == KernelKind::kAttention) part = machine_.attention_efficiency;
  const double product_us = 1e6 * work.flops / (peak(work.dtype) * part * efficiency_);
  const double memory_us =
      1e6 * work.bytes / (machine_.memory_bytes_per_second * machine_.memory_efficiency * efficiency_);
  const double own = machine_.core_bytes_per_second, slower = own > 0 ? machine_.memory_bytes_per_second / own : 1;
  return {std::max(product_us, slower * memory_us) + machine_.kernel_us, memory_us};
}

Priced::Roofline Priced::roofline(const KernelCall& call) const {
  if (!is_of_blocks(call.kernel)) return roofline(kernel_work(call, load_));
  Roofline sum;
  for (const KernelCall& block : calls_on_blocks(call)) {
    const Roofline one = roofline(kernel_work(block, load_));
    sum.us += one.us;
    sum.memory_us += one.memory_us;
  }
  return sum;
}

double Priced::factor_of(const std::string& kernel) const {
  auto found = factors_.find(kernel);
  if (found == factors_.end()) found = factors_.find(kEveryKernel);
  return found != factors_.end() ? found->second : 1;
}

double Priced::call_us(const KernelCall& call) const {
  const auto known = measured_.find(call_key(call));
  return known != measured_.end() ? known->second / efficiency_ : factor_of(call.kernel.text()) * roofline_us(call);
}

Priced::ProgramPrice Priced::price(const Program& program) {
  ProgramPrice price;
  price.calls = program.calls.size();
  double issued_us = 0;
  for (const KernelCall& call : program.calls) {
    const KernelWork work = kernel_work(call, load_);
    const std::string key = call_key(call);
    const auto known = measured_.find(key);
    if (keys_.insert(key).second && known != measured_.end()) ++measured_calls_;
    if (known != measured_.end()) {
      price.us += known->second / efficiency_;
    } else {
      const Roofline alone = roofline(call);
      price.us += factor_of(call.kernel.text()) * alone.us;
      price.memory_us += alone.memory_us;
    }
    issued_us += machine_.host_us;
    price.us = std::max(price.us, issued_us);
    price.flops += work.flops;
    price.by_type[static_cast<size_t>(work.dtype)] += work.flops;
  }
  return price;
}

// Resources: of each rank its way out of and into the node's inner links and its device, or of each node its cores and
// its memory; then the ports between nodes.
size_t Priced::resources() const {
  const auto ranks = static_cast<size_t>(bundle_.manifest.world_size), nodes = static_cast<size_t>(num_nodes_);
  return 3 * ranks + 2 * nodes + 2 * nodes * static_cast<size_t>(machine_.between.ports);
}
int32_t Priced::processor_of(int32_t rank) const {
  return machine_.cores > 0 ? 3 * bundle_.manifest.world_size + 2 * node_of(rank) : 3 * rank + 2;
}
int32_t Priced::memory_of(int32_t rank) const { return 3 * bundle_.manifest.world_size + 2 * node_of(rank) + 1; }
int32_t Priced::port(int32_t rank, bool between, bool in) const {
  if (between) {
    const int32_t own = rank % machine_.ranks_per_node * machine_.between.ports / machine_.ranks_per_node;
    return 3 * bundle_.manifest.world_size + 2 * num_nodes_ + 2 * (node_of(rank) * machine_.between.ports + own) + in;
  }
  // Inside, ranks may share ports, too: the first of those that do stands for all.
  const int32_t own = rank % machine_.ranks_per_node * machine_.inside.ports / machine_.ranks_per_node;
  const int32_t first = (own * machine_.ranks_per_node + machine_.inside.ports - 1) / machine_.inside.ports;
  return 3 * (node_of(rank) * machine_.ranks_per_node + first) + in;
}

void Priced::stand_for(const Kinds& kinds) {
  stand_ins_.resize(resources());
  std::iota(stand_ins_.begin(), stand_ins_.end(), 0);
  const auto of_rank = [&](int32_t rank) {
    return std::array{port(rank, false, false), port(rank, false, true), processor_of(rank), port(rank, true, false),
                      port(rank, true, true)};
  };
  for (size_t rank = 0; rank < kinds.kind_of.size(); ++rank) {
    const auto own = of_rank(static_cast<int32_t>(rank));
    const auto played = of_rank(bundle_.ranks[static_cast<size_t>(kinds.kind_of[rank])].rank);
    for (size_t k = 0; k < own.size(); ++k) stand_ins_[static_cast<size_t>(own[k])] = played[k];
  }
}

Task Priced::shared_task(double fixed_us, std::vector<Use> resource_us) const {
  const auto by_resource = [](const Use& a, const Use& b) { return a.resource < b.resource; };
  std::sort(resource_us.begin(), resource_us.end(), by_resource);
  Task task{fixed_us, 0, {}};
  for (const Use& use : resource_us) {
    if (use.part <= 0) continue;
    if (!task.uses.empty() && task.uses.back().resource == use.resource) task.uses.back().part += use.part;
    else task.uses.push_back(use);
    task.shared = std::max(task.shared, task.uses.back().part);
  }
  if (!stand_ins_.empty()) {  // members of a kind take as much of what is theirs: one of them is enough
    for (Use& use : task.uses) use.resource = stand_in(use.resource);
    std::stable_sort(task.uses.begin(), task.uses.end(), by_resource);
    const auto same = [](const Use& a, const Use& b) { return a.resource == b.resource; };
    task.uses.erase(std::unique(task.uses.begin(), task.uses.end(), same), task.uses.end());
  }
  for (Use& use : task.uses) use.part /= task.shared;
  return task;
}

Task Priced::local(size_t p, size_t i) const {
  const int32_t program = launch_of(bundle_.ranks[p].instructions[i].action).program;
  if (program < 0) return {};
  const ProgramPrice& known = prices_[static_cast<size_t>(program)];
  const int32_t rank = bundle_.ranks[p].rank;
  if (known.us <= 0) return {};
  Task task{0, known.us, {{processor_of(rank), machine_.cores > 0 ? 1.0 / machine_.cores : 1.0}}};
  if (machine_.cores > 0 && known.memory_us > 0)
    task.uses.push_back({memory_of(rank), std::min(1.0, known.memory_us / known.us)});
  return task;
}

double Priced::issued(size_t p, size_t i) const { return issued_.empty() ? 0 : issued_[p][i]; }

void Priced::use_inside(std::vector<Use>& uses, int32_t rank, double out_bytes, double in_bytes) const {
  uses.push_back({port(rank, false, false), 1e6 * out_bytes / machine_.inside.bytes_per_second});
  uses.push_back({port(rank, false, true), 1e6 * in_bytes / machine_.inside.bytes_per_second});
}

void Priced::use_between(std::vector<Use>& uses, const std::vector<int32_t>& ranks_of_node, double bytes) const {
  const double us = 1e6 * bytes / machine_.between.bytes_per_second;
  std::vector<int32_t> ports;
  for (const int32_t rank : ranks_of_node) ports.push_back(port(rank, true, false));
  ports.erase(std::unique(ports.begin(), ports.end()), ports.end());
  for (const int32_t out : ports)
    for (const int32_t way : {out, out + 1}) uses.push_back({way, us / static_cast<double>(ports.size())});
}

Task Priced::message(int32_t from, int32_t to, double bytes) const {
  std::vector<Use> uses;
  if (node_of(from) == node_of(to)) {
    use_inside(uses, from, bytes, 0);
    use_inside(uses, to, 0, bytes);
    return shared_task(machine_.inside.latency_us, std::move(uses));
  }
  const double us = 1e6 * bytes / machine_.between.bytes_per_second;
  uses = {{port(from, true, false), us}, {port(to, true, true), us}};
  return shared_task(machine_.between.latency_us, std::move(uses));
}

std::map<int32_t, std::vector<int32_t>> Priced::by_node(const std::vector<int32_t>& members) const {
  std::map<int32_t, std::vector<int32_t>> nodes;
  for (const int32_t rank : members) nodes[node_of(rank)].push_back(rank);
  for (auto& [node, ranks] : nodes) std::sort(ranks.begin(), ranks.end());
  return nodes;
}

// `rounds` times a part of every member to all: 2 for a sum, 1 for a gather.
Task Priced::by_algorithm(const Algorithm& algorithm, const std::vector<int32_t>& members, double rounds,
                          double part_bytes) const {
  const auto nodes = by_node(members);
  const auto n = static_cast<double>(members.size()), num_nodes = static_cast<double>(nodes.size());
  const bool tree = algorithm.shape == Algorithm::Shape::kTree;
  const double bytes = rounds * (tree ? n : n - 1) * part_bytes / algorithm.bandwidth;
  std::vector<Use> uses;
  for (const auto& [node, ranks] : nodes) {
    if (ranks.size() > 1)
      for (const int32_t rank : ranks) use_inside(uses, rank, bytes, bytes);
    if (nodes.size() > 1) use_between(uses, ranks, bytes);
  }
  const double inside = tree ? std::ceil(n / num_nodes) - 1 : n - num_nodes;
  const double between = tree ? std::ceil(std::log2(num_nodes)) : num_nodes - 1;
  return shared_task(algorithm.start_us + rounds * (inside * algorithm.inside_us + between * algorithm.between_us),
                     std::move(uses));
}

// `rounds` times a part from every member to every other.
Task Priced::exchange(const std::vector<int32_t>& members, double rounds, double part_bytes, double latencies) const {
  const auto nodes = by_node(members);
  const auto n = static_cast<double>(members.size());
  std::vector<Use> uses;
  double latency_us = 0;
  for (const auto& [node, ranks] : nodes) {
    const auto near = static_cast<double>(ranks.size() - 1), far = n - 1 - near;
    const double near_bytes = rounds * near * part_bytes, far_bytes = rounds * far * part_bytes;
    for (const int32_t rank : ranks) {
      use_inside(uses, rank, near_bytes, near_bytes);
      if (far > 0) use_between(uses, {rank}, far_bytes);
    }
    if (near > 0) latency_us = std::max(latency_us, machine_.inside.latency_us);
    if (far > 0) latency_us = std::max(latency_us, machine_.between.latency_us);
  }
  return shared_task(latencies * latency_us, std::move(uses));
}

Task Priced::collective(const std::vector<int32_t>& members, double rounds, double part_bytes, int64_t pieces) const {
  if (machine_.collectives == Collectives::kDirect)
    return exchange(members, rounds, part_bytes, rounds + static_cast<double>(pieces - 1));
  if (machine_.algorithms.empty())
    return by_algorithm({Algorithm::Shape::kRing, 0, machine_.inside.latency_us, machine_.between.latency_us, 1},
                        members, rounds, part_bytes);
  std::optional<Task> fastest;
  for (const Algorithm& algorithm : machine_.algorithms) {
    if (algorithm.shape == Algorithm::Shape::kTree && rounds != 2) continue;
    Task task = by_algorithm(algorithm, members, rounds, part_bytes);
    if (!fastest || task.fixed + task.shared < fastest->fixed + fastest->shared) fastest = std::move(task);
  }
  return *fastest;
}

void Priced::use_multiprocessors(Task& task, const std::vector<int32_t>& members, int32_t max_ctas) const {
  const int32_t taken = max_ctas > 0 ? max_ctas : machine_.of_a_transfer;
  if (machine_.multiprocessors == 0 || taken == 0 || task.shared <= 0) return;
  const double part = std::min(1.0, static_cast<double>(taken) / machine_.multiprocessors);
  std::vector<int32_t> processors;
  for (const int32_t rank : members) processors.push_back(stand_in(processor_of(rank)));
  std::sort(processors.begin(), processors.end());
  processors.erase(std::unique(processors.begin(), processors.end()), processors.end());
  for (const int32_t processor : processors) task.uses.push_back({processor, part});
}

Task Priced::transfer(std::span<const TransferEnd> ends) const {
  const auto& plan = bundle_.ranks[static_cast<size_t>(ends[0].plan)];
  const Action& action = instruction_of(bundle_, ends[0]).action;
  const auto members = [&](int32_t communicator) -> const std::vector<int32_t>& {
    return plan.communicators[static_cast<size_t>(communicator)].ranks;
  };
  const auto ctas = [&](int32_t communicator) {
    return plan.communicators[static_cast<size_t>(communicator)].max_ctas;
  };
  // A sum goes twice around, each time with a part of it for each member.
  const auto done_by = [&](int32_t communicator, double rounds, double part_bytes, int64_t pieces) {
    Task task = collective(members(communicator), rounds, part_bytes, pieces);
    use_multiprocessors(task, members(communicator), ctas(communicator));
    return task;
  };
  return std::visit(
      Cases{[&](const Send& a) {
              const int32_t to = plan.channels[static_cast<size_t>(a.channel)].peer;
              Task task = message(plan.rank, to, static_cast<double>(a.bytes()));
              use_multiprocessors(task, {plan.rank, to}, 0);
              return task;
            },
            [&](const AllReduce& a) {
              const auto n = static_cast<int64_t>(members(a.communicator).size());
              const int64_t element = dtype_bytes(a.types.message);
              return done_by(a.communicator, 2, static_cast<double>(a.count * element) / static_cast<double>(n),
                             pieces_of_segment(segment_bytes(a.count, n, element), n));
            },
            [&](const ReduceScatter& a) {
              const int64_t bytes = a.count * dtype_bytes(a.types.message);
              return done_by(a.communicator, 1, static_cast<double>(bytes),
                             pieces_of_segment(bytes, static_cast<int64_t>(members(a.communicator).size())));
            },
            [&](const AllGather& a) { return done_by(a.communicator, 1, static_cast<double>(a.bytes()), 1); },
            [&](const AllToAll& a) {
              const double part = static_cast<double>(a.bytes()) * filled_part(plan, a, load_);
              Task task = exchange(members(a.communicator), 1, part, 1);
              use_multiprocessors(task, members(a.communicator), ctas(a.communicator));
              return task;
            },
            [](const IsOneOf<Run, Update, Recv, Record, Wait> auto&) { return Task(); }},
      action);
}

Timeline simulate_on(const Kinds& kinds, const Priced& prices) { return play(kinds.bundle, kinds.matching, prices); }

Result<Timeline> simulate_on(const Bundle& bundle, const Priced& prices) {
  PIPER_ASSIGN(const auto matching, verify::match(bundle));
  return play(bundle, matching, prices);
}

}  // namespace piper::timeline
