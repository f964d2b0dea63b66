// A step that is played with one rank for each kind of rank takes as long, for every rank, as the step of all ranks.
#include "schemas/timeline/kinds.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "schemas/timeline/assess.h"
#include "schemas/timeline/priced.h"
#include "tests/unit/compiled_plans.h"

namespace piper::timeline {
namespace {

// Every rank has ports of its own; links are slow enough to be waited for.
Machine machine_of(int32_t ranks_per_node) {
  Machine machine;
  machine.ranks_per_node = ranks_per_node;
  machine.flops.fill(1e9);
  machine.memory_bytes_per_second = 4e9;
  machine.kernel_us = 0.2;
  machine.host_us = 0.1;
  machine.inside = {1, 5e7, ranks_per_node};
  machine.between = {8, 1e7, ranks_per_node};
  machine.algorithms = {{Algorithm::Shape::kRing, 1, 1, 8, 1}, {Algorithm::Shape::kTree, 2, 1, 8, 0.7}};
  machine.multiprocessors = 10;
  machine.of_a_transfer = 2;
  return machine;
}

void check_same(const RankTime& a, const RankTime& b) {
  CHECK(a.busy == Approx(b.busy).epsilon(1e-9));
  CHECK(a.communication == Approx(b.communication).epsilon(1e-9).margin(1e-6));
  CHECK(a.waiting == Approx(b.waiting).epsilon(1e-9).margin(1e-6));
}

// Whether there were fewer kinds than ranks.
bool check_alike(const plan::Bundle& bundle, const Machine& machine) {
  const Priced prices(bundle, machine);
  const auto all = simulate_on(bundle, prices);
  const auto kinds = kinds_on(bundle, machine);
  REQUIRE(all.ok());
  REQUIRE(kinds.ok());
  CHECK(std::accumulate(kinds->num_ranks.begin(), kinds->num_ranks.end(), int64_t{0}) ==
        static_cast<int64_t>(bundle.ranks.size()));
  const Priced prices_of_kinds(*kinds, machine);
  const Timeline few = simulate_on(*kinds, prices_of_kinds);
  CHECK(few.step == Approx(all->step).epsilon(1e-9));
  CHECK(prices_of_kinds.flops() == Approx(prices.flops()).epsilon(1e-12));
  CHECK(prices_of_kinds.product_type() == prices.product_type());
  CHECK(bubble(*kinds, few) == Approx(bubble(*all)).margin(1e-9));
  const auto of_all = rank_times(bundle, *all), of_kinds = rank_times(kinds->bundle, few);
  for (size_t p = 0; p < bundle.ranks.size(); ++p)
    check_same(of_kinds[static_cast<size_t>(kinds->kind_of[static_cast<size_t>(bundle.ranks[p].rank)])], of_all[p]);
  return kinds->bundle.ranks.size() < bundle.ranks.size();
}

}  // namespace

TEST_CASE("one rank of a kind takes as long as all of them") {
  int fewer = 0;
  for (const auto& [name, bundle] : compiled::compositions())
    for (const int32_t ranks_per_node : {1, 2, 4, 8}) {
      INFO(name << " on nodes of " << ranks_per_node);
      if (check_alike(bundle, machine_of(ranks_per_node))) ++fewer;
    }
  CHECK(fewer >= 20);
}

TEST_CASE("ranks that do the same work and meet others are of kinds of their own") {
  const plan::Bundle within_groups = compiled::bundle("tiny_gpt.onnx", R"(piper: 1
model: {batch: 16}
mesh: {rep: 4, fsdp: 2}
directives:
  - {op: replicate, filter: {}, devices: {rep: "*"}, bucket_size: 0.004, shard_params: true, parts_over: fsdp}
  - {op: split, num_microbatches: 2}
clip_grad_norm: 1.0
optimizer: {adamw: {lr: 0.001}}
)");
  for (const plan::Bundle& bundle : {compiled::clipped_replicas_of_places(), within_groups}) {
    for (const int32_t ranks_per_node : {1, 2, 4, 8}) {
      INFO("on nodes of " << ranks_per_node);
      CHECK(check_alike(bundle, machine_of(ranks_per_node)));
    }
    check_alike(bundle, machine_of(3));  // groups lie within a node here and across two there
  }
}

TEST_CASE("ranks that share a port or a processor are played one by one") {
  Machine of_one_port = machine_of(2), of_one_processor = machine_of(2);
  of_one_port.between.ports = 1;
  of_one_processor.cores = 2;
  for (const auto& [name, bundle] : compiled::compositions())
    for (const Machine& machine : {of_one_port, of_one_processor})
      CHECK(kinds_on(bundle, machine)->bundle.ranks.size() == bundle.ranks.size());
}

}  // namespace piper::timeline
