// What a rank on a GPU takes beside its plan's buffers.
#include "schemas/plan/device_memory.h"

#include <catch2/catch.hpp>

#include "schemas/plan/communicator_uses.h"

namespace piper::plan {
namespace {

constexpr Target kCpu{DeviceKind::kCpu, Summing::kPosition}, kGpu{DeviceKind::kCuda, Summing::kPosition},
    kAdding{DeviceKind::kCuda, Summing::kLibrary};
constexpr int64_t kSend = kConnectionSendBytes, kReceive = kConnectionReceiveBytes;

Instruction on(int32_t stream, Action action) {
  Instruction instruction;
  instruction.stream = stream;
  instruction.action = std::move(action);
  return instruction;
}

Send send_on(int32_t channel) {
  Send send;
  send.channel = channel;
  return send;
}
Recv recv_on(int32_t channel) {
  Recv recv;
  recv.channel = channel;
  return recv;
}

RankPlan plan_of(const std::vector<Instruction>& instructions) {
  RankPlan plan;
  plan.streams = {{"bounded"}, {"free"}};
  plan.streams.edit()[0].max_ctas = 3;
  plan.communicators = {{"team", {0, 1, 2, 3}, 2}, {"pair", {0, 1}, 0}};
  plan.channels = {{"out", 1, 0}, {"in", 1, 0}, {"unused", 2, 0}};
  plan.instructions = instructions;
  return plan;
}

TEST_CASE(
    "a channel's memory is that of one connection, in the direction of its messages, for each of NCCL's channels") {
  const RankPlan plan = plan_of({on(0, send_on(0)), on(1, recv_on(1)), on(1, recv_on(1))});
  CHECK(communicator_bytes(plan, kGpu) == 3 * kSend + kNcclChannels * kReceive);
  CHECK(communicator_bytes(plan, kCpu) == 0);
  const std::vector<ChannelUse> uses = channel_uses(plan);
  CHECK((uses[0].stream == 0 && uses[0].sends));
  CHECK((uses[1].stream == 1 && !uses[1].sends));
  CHECK(uses[2].stream == -1);
}

TEST_CASE("a communicator's memory is that of its neighbours where NCCL adds, of all members where they send") {
  AllReduce sum;
  sum.communicator = 0;
  CHECK(communicator_bytes(plan_of({on(0, sum)}), kGpu) == 2 * 3 * (kSend + kReceive));
  CHECK(communicator_bytes(plan_of({on(0, sum)}), kAdding) == 2 * 2 * (kSend + kReceive));
  AllGather gather;
  gather.communicator = 1;  // of two ranks: one neighbour
  CHECK(communicator_bytes(plan_of({on(1, gather)}), kGpu) == kNcclChannels * (kSend + kReceive));
  CHECK(communicator_bytes(plan_of({}), kGpu) == 0);
  sum.types.message = DType::kBF16;  // not the type of the data: NCCL does not add
  CHECK(communicator_bytes(plan_of({on(0, sum)}), kAdding) == 2 * 3 * (kSend + kReceive));
}

TEST_CASE("messages to ranks of other nodes share pools, and sums over nodes have buffers at both ends") {
  Target of_two = kAdding, of_one = kAdding, of_four = kAdding;
  of_two.ranks_per_node = 2, of_one.ranks_per_node = 1, of_four.ranks_per_node = 4;
  const int64_t pool = kNetworkPoolBytes;
  // Channels with rank 1: on the same node, or on another one. NCCL's channels are a power of two: 4 in place of 3.
  const RankPlan messages = plan_of({on(0, send_on(0)), on(1, recv_on(1))});
  CHECK(communicator_bytes(messages, of_two) == 3 * kSend + kNcclChannels * kReceive);
  CHECK(communicator_bytes(messages, of_one) == (4 + kNetworkChannels) * pool);

  AllToAll exchange;  // ranks 0 to 3, 2 of NCCL's channels
  exchange.communicator = 0;
  const RankPlan exchanges = plan_of({on(0, exchange)});
  CHECK(communicator_bytes(exchanges, of_four) == communicator_bytes(exchanges, kAdding));
  CHECK(communicator_bytes(exchanges, of_two) == 2 * (kSend + kReceive) + 3 * 2 * pool);  // a neighbour sends from here
  CHECK(communicator_bytes(exchanges, of_one) == 2 * 2 * pool);
  // A rank that has no neighbour keeps no pool for one: ranks 0 to 2 are on one node, 3 on another.
  Target of_three = kAdding;
  of_three.ranks_per_node = 3;
  RankPlan alone = exchanges;
  CHECK(communicator_bytes(alone, of_three) == 2 * 2 * (kSend + kReceive) + 4 * 2 * pool);
  alone.rank = 3;
  CHECK(communicator_bytes(alone, of_three) == 2 * 2 * pool);

  AllReduce sum;
  sum.communicator = 0;
  AllGather gather;
  gather.communicator = 0;
  const int64_t ends = 2 * kNetworkConnectionBytes;
  CHECK(communicator_bytes(plan_of({on(0, sum)}), of_two) == 2 * 3 * ends);     // a ring and a tree reach all three
  CHECK(communicator_bytes(plan_of({on(0, gather)}), of_two) == 2 * 1 * ends);  // a ring
}

TEST_CASE("the least memory of communicators is that of the nodes where they need least") {
  AllToAll exchange;
  exchange.communicator = 0;
  AllReduce sum;
  sum.communicator = 0;
  Target apart = kAdding;
  apart.ranks_per_node = 1;
  const RankPlan messages = plan_of({on(0, send_on(0)), on(1, recv_on(1))}), exchanges = plan_of({on(0, exchange)}),
                 sums = plan_of({on(0, sum)});
  CHECK(least_communicator_bytes(messages, kAdding) == 3 * kSend + kNetworkChannels * kNetworkPoolBytes);
  CHECK(least_communicator_bytes(exchanges, kAdding) == communicator_bytes(exchanges, apart));
  CHECK(least_communicator_bytes(sums, kAdding) == communicator_bytes(sums, kAdding));
  CHECK(least_communicator_bytes(sums, kCpu) == 0);
}

TEST_CASE("kernels that add in two stages keep parts, once for runs that agree in all") {
  Program program;
  for (const char* kernel : {"square_sum", "add", "rms_norm_backward_weight"}) {
    KernelCall call;
    call.kernel = kernel;
    program.calls.push_back(call);
  }
  const auto run = [&](int32_t arguments) {
    Run run;
    run.program = 0;
    run.arguments = arguments;
    return on(0, run);
  };
  CHECK(kernel_part_bytes({program}, plan_of({run(0), run(0), run(1)}), kGpu) == 2 * 2 * kKernelPartBytes);
  CHECK(kernel_part_bytes({program}, plan_of({run(0)}), kCpu) == 0);
}

}  // namespace
}  // namespace piper::plan
