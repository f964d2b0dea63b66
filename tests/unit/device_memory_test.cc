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
