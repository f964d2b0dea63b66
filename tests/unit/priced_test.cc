// Prices of kernel calls, messages and collectives on machines of round numbers.
#include <algorithm>
#include <catch2/catch.hpp>

#include "schemas/plan/call_key.h"
#include "schemas/timeline/assess.h"
#include "schemas/timeline/priced.h"
#include "schemas/timeline/profile_times.h"
#include "tests/unit/temp_folder.h"

namespace piper::timeline {
namespace {

using namespace plan;

// A flop, a byte of memory and a byte of a link take a microsecond each.
Machine slow(int32_t ranks_per_node) {
  Machine machine;
  machine.ranks_per_node = ranks_per_node;
  machine.flops[static_cast<size_t>(DType::kF32)] = 1e6;
  machine.memory_bytes_per_second = 1e6;
  machine.inside = {10, 1e6, ranks_per_node};
  machine.between = {100, 0.5e6, 1};
  return machine;
}

Operand dense(std::vector<int64_t> shape, DType dtype = DType::kF32) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) strides[axis] = stride;
  return {0, 0, dtype, std::move(shape), std::move(strides)};
}
KernelCall call(const std::string& kernel, std::vector<Operand> outputs, std::vector<Operand> inputs,
                std::vector<Attr> attrs = {}) {
  return {kernel, false, std::move(outputs), std::move(inputs), std::move(attrs), ""};
}

// `ranks` that each run `actions`, the k-th on stream k; one communicator of all of them.
Bundle all_do(int32_t ranks, const std::vector<Action>& actions) {
  Bundle bundle;
  bundle.manifest.world_size = ranks;
  std::vector<int32_t> members;
  for (int32_t r = 0; r < ranks; ++r) members.push_back(r);
  for (int32_t r = 0; r < ranks; ++r) {
    RankPlan plan;
    plan.rank = r;
    auto& buffers = plan.buffers.edit();
    for (int k = 0; k < 4; ++k) buffers.push_back({"b" + std::to_string(k), BufferClass::kArena, 1 << 20});
    for (size_t k = 0; k < actions.size(); ++k) {
      plan.streams.edit().push_back({"s" + std::to_string(k)});
      plan.communicators.push_back({"c" + std::to_string(k), members});
      plan.instructions.edit().push_back({static_cast<int32_t>(k), actions[k]});
    }
    plan.arguments.edit().push_back({"c0.F", {}});
    bundle.ranks.push_back(std::move(plan));
  }
  return bundle;
}
double step_of(const Bundle& bundle, const Machine& machine) {
  const auto timeline = simulate_on(bundle, Priced(bundle, machine));
  REQUIRE(timeline.ok());
  return timeline->step;
}
double step_of(int32_t ranks, const Action& action, const Machine& machine) {
  return step_of(all_do(ranks, {action}), machine);
}

AllReduce sum_of(int64_t floats, int32_t communicator = 0) {
  return {{0, 0}, floats, DType::kF32, communicator, Reduction::kSum};
}
AllToAll exchange_of(int64_t floats, int32_t communicator = 0) {
  return {{1, 0}, {2, 0}, floats, {}, {}, 0, communicator, DType::kF32};
}

}  // namespace

TEST_CASE("the work of products is two flops for each factor") {
  CHECK(kernel_work(call("matmul", {dense({5, 2, 4})}, {dense({5, 2, 3}), dense({5, 3, 4})}), {}).flops == 240);
  CHECK(kernel_work(call("linear", {dense({2, 4})}, {dense({2, 3}), dense({4, 3})}), {}).flops == 48);
  CHECK(kernel_work(call("linear_backward_input", {dense({2, 3})}, {dense({2, 4}), dense({4, 3})}), {}).flops == 48);
  CHECK(kernel_work(call("muon", {dense({8, 4}), dense({8, 4})}, {dense({}), dense({})}), {}).flops ==
        5 * 2 * (4 * 8 * 4 + 4 * 4 * 4 + 4 * 4 * 8));
  CHECK(kernel_work(call("linear_backward_weight", {dense({4, 3})}, {dense({2, 4}), dense({2, 3})}), {}).flops == 48);
  const std::vector<Operand> image = {dense({1, 3, 8, 8}), dense({4, 3, 3, 3})};
  CHECK(kernel_work(call("convolution", {dense({1, 4, 8, 8})}, image), {}).flops == 2 * 4 * 64 * 27);
  const std::vector<Operand> heads = {dense({1, 2, 4, 8}), dense({1, 2, 4, 8}), dense({1, 2, 4, 8})};
  const auto attention = kernel_work(call("scaled_dot_product_attention", {dense({1, 2, 4, 8})}, heads), {});
  CHECK(attention.kind == KernelKind::kAttention);
  CHECK(attention.flops == 2 * (2 * 4 * 4 * 8 * 2));
  CHECK(kernel_work(call("scaled_dot_product_attention", {dense({1, 2, 4, 8})}, heads, {{"is_causal", true}}), {})
            .flops == attention.flops / 2);
}

TEST_CASE("a balanced router fills as many places as there are rows") {
  Bundle bundle;
  bundle.programs.push_back(
      {"p", {}, 0, {call("expert_order", {dense({64}, DType::kI64)}, {dense({16}, DType::kI64)})}});
  const RouterLoad load = balanced_load(bundle);
  const auto product = call("grouped_matmul", {dense({64, 3})}, {dense({64, 2}), dense({4, 2, 3})});
  CHECK(kernel_work(product, load).flops == 2 * 16 * 2 * 3);
  CHECK(kernel_work(product, {}).flops == 2 * 64 * 2 * 3);
}

TEST_CASE("a call waits for its flops or for its bytes") {
  auto bundle = all_do(1, {Run{0, 0, {}}});
  bundle.programs.push_back({"c0.F.b1", {}, 0, {call("linear", {dense({2, 4})}, {dense({2, 3}), dense({4, 3})})}});
  Machine machine = slow(1);
  CHECK(step_of(bundle, machine) == Approx(4 * (8 + 6 + 12)));  // 48 flops, 104 bytes
  machine.memory_bytes_per_second = 1e9;
  CHECK(step_of(bundle, machine) == Approx(48));
  machine.product_efficiency = 0.5;
  machine.kernel_us = 3;
  CHECK(step_of(bundle, machine) == Approx(2 * 48 + 3));
  CHECK(Priced(bundle, machine).flops() == 48);
  machine.host_us = 500;  // issued at 500, and the device is done long before a second call would be
  CHECK(step_of(bundle, machine) == Approx(500 + 500));
}

// For two lines for one call the mean by count; a call of another shape keeps its roofline.
TEST_CASE("a measured time stands for the roofline of its call") {
  const auto small = call("linear", {dense({2, 4})}, {dense({2, 3}), dense({4, 3})});
  const auto large = call("linear", {dense({4, 4})}, {dense({4, 3}), dense({4, 3})});
  auto bundle = all_do(1, {Run{0, 0, {}}});
  bundle.programs.push_back({"c0.F.b1", {}, 0, {small, large}});
  CHECK(plan::call_key(small) == "linear(f32[2,3]3.1,f32[4,3]3.1)(f32[2,4]4.1)");
  CHECK(plan::call_key(small) != plan::call_key(large));
  const TempFolder folder;
  const auto times = read_kernel_times(folder.write("t", "{\"call\":\"" + plan::call_key(small) +
                                                             "\",\"us\":10.0,\"count\":3}\n{\"call\":\"" +
                                                             plan::call_key(small) + "\",\"us\":14.0,\"count\":1}\n"));
  REQUIRE(times.ok());
  const Priced prices(bundle, slow(1), 1, *times);
  CHECK(prices.distinct_calls() == 2);
  CHECK(prices.measured_calls() == 1);
  const auto timeline = simulate_on(bundle, prices);
  REQUIRE(timeline.ok());
  CHECK(timeline->step == Approx(11 + 4 * (12 + 12 + 16)));
}

// A node of two cores: two ranks do not feel each other, four take twice as long, as do two that move bytes alone.
TEST_CASE("ranks share cores and memory") {
  const auto ranks = [](int32_t count) {
    auto bundle = all_do(count, {Run{0, 0, {}}});
    bundle.programs.push_back({"c0.F.b1", {}, 0, {call("linear", {dense({2, 4})}, {dense({2, 3}), dense({4, 3})})}});
    return bundle;
  };
  Machine machine = slow(4);
  machine.cores = 2;
  machine.memory_bytes_per_second = 1e9;
  CHECK(step_of(ranks(2), machine) == Approx(48));
  CHECK(step_of(ranks(4), machine) == Approx(96));
  machine.memory_bytes_per_second = 1e6;
  CHECK(step_of(ranks(2), machine) == Approx(2 * 104));
  // One core has half of the bandwidth at most: two do not feel each other.
  machine.core_bytes_per_second = 0.5e6;
  CHECK(step_of(ranks(1), machine) == Approx(208));
  CHECK(step_of(ranks(2), machine) == Approx(208));
  CHECK(step_of(ranks(4), machine) == Approx(416));
}

// Two programs share a call. Its time, and those of the others, are such that the programs take what was measured.
TEST_CASE("a profile of runs gives times of calls") {
  const KernelCall shared = call("linear", {dense({2, 4})}, {dense({2, 3}), dense({4, 3})});
  const KernelCall relu = call("relu", {dense({10})}, {dense({10})}), other = call("neg", {dense({10})}, {dense({10})});
  Bundle bundle = all_do(2, {Run{0, 0, {}}, Run{1, 0, {}}, Run{2, 0, {}}});
  bundle.programs.push_back({"c0.F.b1", {}, 0, {shared, relu}});
  bundle.programs.push_back({"c1.F.b1", {}, 0, {shared, shared, other}});
  bundle.programs.push_back({"c2.F.b1", {}, 0, {other}});
  Measured measured;
  measured.cost_us = {{40, 65, 5}, {40, 75, 5}};
  const Priced prices(bundle, slow(2));
  const ProfiledTimes profiled = times_by_profile(bundle, measured, prices);
  const KernelTimes& times = profiled.times;
  REQUIRE(times.size() == 3);
  const auto us = [&](const KernelCall& one) { return times.at(call_key(one)); };
  CHECK(us(other) == Approx(5).epsilon(0.02));
  CHECK(us(shared) == Approx(32.5).epsilon(0.02));
  CHECK(us(relu) == Approx(7.5).epsilon(0.05));
  const Priced again(bundle, slow(2), 1, times);
  CHECK(again.measured_calls() == 3);
  CHECK(again.local(0, 0).shared == Approx(40).epsilon(0.02));
  CHECK(again.local(1, 1).shared == Approx(70).epsilon(0.02));
  // What was not measured takes as much longer than its roofline as calls of its kernel do, or all calls.
  const KernelCall longer = call("relu", {dense({20})}, {dense({20})}),
                   unknown = call("abs", {dense({10})}, {dense({10})});
  const Priced scaled(bundle, slow(2), 1, times, profiled.factors);
  CHECK(scaled.call_us(longer) == Approx(2 * us(relu)));
  CHECK(scaled.call_us(unknown) == Approx(80 * (230.0 / (2 * (3 * 104 + 3 * 80)))).epsilon(0.02));
}

TEST_CASE("collectives take the time of their rings") {
  // 4 ranks in one node, 64 floats: 6 steps of 10 us, 2 x 3/4 x 256 bytes.
  CHECK(step_of(4, sum_of(64), slow(4)) == Approx(6 * 10 + 384));
  // Parts of 16 floats: 3 steps, 3 parts.
  CHECK(step_of(4, AllGather{{0, 0}, {1, 0}, 16, 0, DType::kF32}, slow(4)) == Approx(3 * 10 + 3 * 64));
  CHECK(step_of(4, ReduceScatter{{0, 0}, {1, 0}, 16, DType::kF32, 0, Reduction::kSum}, slow(4)) ==
        Approx(3 * 10 + 3 * 64));
  CHECK(step_of(4, exchange_of(16), slow(4)) == Approx(10 + 3 * 64));
  // Two nodes of two: in each direction two steps inside and one across, at half the rate; 1 near and 2 far messages,
  // the far ones of both ranks through one port.
  CHECK(step_of(4, sum_of(64), slow(2)) == Approx(2 * (2 * 10 + 100) + 2 * 384));
  CHECK(step_of(4, exchange_of(16), slow(2)) == Approx(100 + 2 * (2 * 2 * 64)));
  Machine direct = slow(4);
  direct.collectives = Collectives::kDirect;
  CHECK(step_of(4, sum_of(64), direct) == Approx(2 * 10 + 384));
  CHECK(step_of(4, AllGather{{0, 0}, {1, 0}, 16, 0, DType::kF32}, direct) == Approx(10 + 3 * 64));
  // A sum goes in pieces of 1 MiB of a member's part, each of which is sent when the one before is summed.
  direct.inside.bytes_per_second = 1e12;
  const int64_t part = (int64_t{5} << 18) / 2;            // floats: two and a half pieces
  const double us = 4 * static_cast<double>(part) / 1e6;  // from one member to another
  CHECK(step_of(4, sum_of(4 * part), direct) == Approx(4 * 10 + 2 * 3 * us));
  CHECK(step_of(4, ReduceScatter{{0, 0}, {1, 0}, part, DType::kF32, 0, Reduction::kSum}, direct) ==
        Approx(3 * 10 + 3 * us));
  CHECK(step_of(4, AllGather{{0, 0}, {1, 0}, part, 0, DType::kF32}, direct) == Approx(10 + 3 * us));
}

TEST_CASE("a collective goes by the fastest algorithm of its size") {
  using Shape = Algorithm::Shape;
  Machine machine = slow(2);
  machine.algorithms = {{Shape::kRing, 8, 10, 100, 1}, {Shape::kRing, 1, 2, 20, 0.5}, {Shape::kTree, 3, 4, 40, 0.8}};
  const auto sum_on = [&](int32_t ranks, int64_t floats, std::vector<Algorithm> by) {
    Machine one = machine;
    one.algorithms = std::move(by);
    return step_of(ranks, sum_of(floats), one);
  };
  const Algorithm far = machine.algorithms[0], fast = machine.algorithms[1], tree = machine.algorithms[2];
  // 16 ranks on 8 nodes. Rings: 2 x 8 steps inside and 2 x 7 between; a tree: 2 inside and 2 x 3 between. Between nodes
  // a byte takes two microseconds: a ring brings 2 x 15 / 16 of them, a tree each twice.
  CHECK(sum_on(16, 160, {far}) == Approx(8 + 2 * (8 * 10 + 7 * 100) + 2 * 2 * 600));
  CHECK(sum_on(16, 160, {fast}) == Approx(1 + 2 * (8 * 2 + 7 * 20) + 2 * 2 * 2 * 600));
  CHECK(sum_on(16, 160, {tree}) == Approx(3 + 2 * (1 * 4 + 3 * 40) + 2 * 2 * 640 / 0.8));
  for (const int64_t floats : {16, 160, 1600}) {
    const double fastest =
        std::min({sum_on(16, floats, {far}), sum_on(16, floats, {fast}), sum_on(16, floats, {far, tree})});
    CHECK(step_of(16, sum_of(floats), machine) == Approx(fastest));
  }
  CHECK(step_of(16, sum_of(16), machine) < sum_on(16, 16, {far, fast}));  // a tree
  CHECK(step_of(16, sum_of(16000), machine) == Approx(sum_on(16, 16000, {far})));
  // Gathers go by rings.
  CHECK(step_of(4, AllGather{{0, 0}, {1, 0}, 1, 0, DType::kF32}, machine) == Approx(1 + 2 * 2 + 20 + 2 * 2 * 12));
}

TEST_CASE("a transfer takes multiprocessors from the kernels beside it") {
  Bundle bundle = all_do(2, {Run{0, 0, {}}, sum_of(400)});
  bundle.programs.push_back({"c0.F.b1", {}, 0, {call("linear", {dense({20, 4})}, {dense({20, 20}), dense({4, 20})})}});
  Machine machine = slow(2);
  machine.inside.latency_us = 0;
  const double kernels = step_of(all_do(2, {}), machine), alone = 3200;  // 2 x 20 x 4 x 20 flops
  CHECK(kernels == Approx(0).margin(1e-9));
  CHECK(step_of(bundle, machine) == Approx(alone));
  machine.multiprocessors = 4;
  machine.of_a_transfer = 1;
  // 1600 us of transfer, a quarter of the device: both go at 4 / 5 meanwhile, and 2000 us long.
  CHECK(step_of(bundle, machine) == Approx(2000 + alone - 1600));
  for (RankPlan& plan : bundle.ranks) plan.communicators[1].max_ctas = 2;
  for (RankPlan& plan : bundle.ranks) std::get<AllReduce>(plan.instructions.edit()[1].action).communicator = 1;
  CHECK(step_of(bundle, machine) == Approx(2400 + alone - 1600));
}

TEST_CASE("a message takes the links between its ends") {
  Bundle bundle = all_do(2, {});
  for (int32_t r = 0; r < 2; ++r) {
    auto& plan = bundle.ranks[static_cast<size_t>(r)];
    plan.streams.edit().push_back({"s"});
    plan.channels = {{"there", 1 - r, 0}};
    plan.instructions.edit().push_back(
        {0, r == 0 ? Action(Send{{0, 0}, 25, 0, DType::kF32}) : Action(Recv{{0, 0}, 25, 0, DType::kF32})});
  }
  CHECK(step_of(bundle, slow(2)) == Approx(10 + 100));
  CHECK(step_of(bundle, slow(1)) == Approx(100 + 200));
}

// Links of a delay, as piper-run --link-delay has them: a message travels from when it is sent, also while its receiver
// does something else, and goes through its sender's port, then through its receiver's.
TEST_CASE("a delayed message travels from when its sender came") {
  Bundle bundle = all_do(2, {});
  for (int32_t r = 0; r < 2; ++r) {
    auto& plan = bundle.ranks[static_cast<size_t>(r)];
    plan.streams.edit().push_back({"s"});
    plan.channels = {{"there", 1 - r, 0}};
    plan.instructions.edit().push_back({0, Run{0, 0, {}}});
    for (int k = 0; k < 2; ++k)
      plan.instructions.edit().push_back(
          {0, r == 0 ? Action(Send{{0, 0}, 25, 0, DType::kF32}) : Action(Recv{{0, 0}, 25, 0, DType::kF32})});
  }
  const auto step = [&](double sender_us, double receiver_us, const Link& link) {
    const auto timeline = simulate_times(bundle, {{{sender_us, 0, 0}, {receiver_us, 0, 0}}, {}, {}, link});
    REQUIRE(timeline.ok());
    return timeline->step;
  };
  CHECK(step(10, 0, {20, 0}) == Approx(30));
  CHECK(step(10, 25, {20, 0}) == Approx(45));  // a send ends when both are there: the second one is sent then
  CHECK(step(10, 10, {20, 0}) == Approx(30));
  CHECK(step(10, 10, {20, 10e6}) == Approx(50));  // 10 us in the port: the second leaves behind the first
}

TEST_CASE("delayed messages of a collective share the ports of its members") {
  const auto step = [](const std::vector<Action>& actions, double bytes_per_second = 1e6) {
    const Bundle bundle = all_do(4, actions);
    const std::vector<double> free(actions.size());
    const auto timeline = simulate_times(bundle, {{free, free, free, free}, {}, {}, {20, bytes_per_second}});
    REQUIRE(timeline.ok());
    return timeline->step;
  };
  CHECK(step({exchange_of(16)}) == Approx(20 + 3 * 64));
  CHECK(step({AllGather{{0, 0}, {1, 0}, 16, 0, DType::kF32}}) == Approx(20 + 3 * 64));
  CHECK(step({ReduceScatter{{0, 0}, {1, 0}, 16, DType::kF32, 0, Reduction::kSum}}) == Approx(20 + 3 * 64));
  CHECK(step({sum_of(64)}) == Approx(2 * (20 + 3 * 64)));
  CHECK(step({exchange_of(16), exchange_of(16, 1)}) == Approx(20 + 2 * 3 * 64));  // two streams, one port
  const int64_t part = (int64_t{5} << 18) / 2;            // floats: two and a half pieces of 1 MiB
  const double us = 4 * static_cast<double>(part) / 1e6;  // from one member to another
  CHECK(step({ReduceScatter{{0, 0}, {1, 0}, part, DType::kF32, 0, Reduction::kSum}}, 1e12) == Approx(3 * 20 + 3 * us));
  CHECK(step({sum_of(4 * part)}, 1e12) == Approx(4 * 20 + 2 * 3 * us));
}

TEST_CASE("kernel times of a table are those of an instruction's calls") {
  auto bundle = all_do(2, {Run{0, 0, {}}, sum_of(64)});
  const auto small = call("linear", {dense({2, 4})}, {dense({2, 3}), dense({4, 3})});
  bundle.programs.push_back({"c0.F.b1", {}, 0, {small, small}});
  const auto measured = times_by_table(bundle, {{plan::call_key(small), 3}});
  REQUIRE(measured.ok());
  CHECK(measured->cost_us == std::vector<std::vector<double>>{{6, 0}, {6, 0}});
  CHECK(!times_by_table(bundle, {}).ok());
}

// What "Piper" (arXiv 2606.11169) measures as 1.46: expert exchanges under gradient reductions. Here the exchange has
// 4 x 64 bytes of every link to move and the reduction 1.5 x 512: while both go on, each has half of the rate.
TEST_CASE("an exchange takes longer under a reduction of gradients") {
  const auto machine = slow(4);
  const auto bundle = all_do(4, {sum_of(512), exchange_of(128, 1)});
  const auto together = simulate_on(bundle, Priced(bundle, machine));
  REQUIRE(together.ok());
  const double alone = step_of(4, exchange_of(128), machine), sum_alone = step_of(4, sum_of(512), machine);
  REQUIRE(together->transfers.size() == 2);
  const Transfer& sum = together->transfers[0];
  const Transfer& exchange = together->transfers[1];
  // The exchange moves from 10 to 60 us alone, then shares: 10 + 50 + 2 x (1536 - 50).
  CHECK(alone == Approx(10 + 1536));
  CHECK(exchange.end == Approx(60 + 2 * (1536 - 50)));
  CHECK(exchange.end / alone == Approx(1.96).epsilon(0.01));
  // Nothing is lost: the links are busy until both are done.
  CHECK(sum.end == Approx(10 + 1536 + 3072));
  CHECK(sum_alone == Approx(60 + 3072));
}

// For two transfers that use one link fully, of A and B microseconds alone and begun at once, each has half of the link
// until the shorter is over: the first takes A + min(A, B), 1 + min(1, B / A) times as long. So the paper's 1.46 is an
// exchange that reductions go beside for 0.46 of its time, and twice as long is the most that one of them costs.
TEST_CASE("a transfer is slowed down by as much as another one has of its link meanwhile") {
  Machine machine = slow(4);
  machine.inside.latency_us = 0;
  const double alone = step_of(4, exchange_of(128), machine);
  CHECK(alone == Approx(3 * 512));
  for (const double part : {0.25, 0.46, 1.0, 4.0}) {
    const auto floats = static_cast<int64_t>(part * alone / 1.5 / 4);
    const double other = step_of(4, sum_of(floats), machine);
    CHECK(other == Approx(part * alone).epsilon(0.01));
    const auto bundle = all_do(4, {sum_of(floats), exchange_of(128, 1)});
    const auto together = simulate_on(bundle, Priced(bundle, machine));
    REQUIRE(together.ok());
    CHECK(together->transfers[1].end / alone == Approx(1 + std::min(1.0, other / alone)));
    CHECK(together->step == Approx(alone + other));
  }
}

TEST_CASE("a rank's time is its work, what it waits for on links, and the rest") {
  auto bundle = all_do(2, {Run{0, 0, {}}, sum_of(100)});
  bundle.programs.push_back({"c0.F.b1", {}, 0, {call("linear", {dense({2, 4})}, {dense({2, 3}), dense({4, 3})})}});
  const auto timeline = simulate_on(bundle, Priced(bundle, slow(2)));
  REQUIRE(timeline.ok());
  const auto times = rank_times(bundle, *timeline);
  CHECK(times[0].busy == Approx(104));
  CHECK(times[0].communication == Approx(20 + 400 - 104));
  CHECK(times[0].waiting == Approx(0).margin(1e-9));
  const auto path = critical_path(bundle, *timeline);
  REQUIRE(path.size() == 1);
  CHECK(path[0].end - path[0].begin == Approx(420));
  CHECK(by_line(bundle, path)[0].kind == Kind::kAllReduce);
}

}  // namespace piper::timeline
