// What an operator takes from a device's allocator while it is rehearsed, against what the plan counts for its call.
#include <catch2/catch.hpp>
#include <stdexcept>

#include "runtime/kernels/binding.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/kernel_scratch.h"

namespace piper::kernels {
namespace {

// An allocator whose counts the kernel itself moves.
struct Counts : ScratchMeter {
  void begin() override { most = now; }
  int64_t peak() override { return most; }
  int64_t in_use() override { return now; }
  void take(int64_t bytes) {
    now += bytes;
    if (now > most) most = now;
  }
  int64_t now = 0, most = 0;
};

class Device : public OperatorDevice {
 public:
  explicit Device(Counts& counts) : counts_(counts) {}
  at::Device device() const override { return at::kCPU; }
  void run(NamedKernel& kernel, hal::Queue&) const override { beyond_ = kernel.execute_metered(counts_); }
  const std::optional<ScratchBeyondPlan>& beyond() const { return beyond_; }

 private:
  Counts& counts_;
  mutable std::optional<ScratchBeyondPlan> beyond_;
};

class Queue : public hal::Queue {};

// A call of a kernel that plans count nothing for but the slack. What it took beyond that.
std::optional<ScratchBeyondPlan> run(Counts& counts, int64_t temporary, int64_t kept) {
  const Device device(counts);
  plan::KernelCall call;
  call.kernel = "fill";
  call.outputs.emplace_back();
  call.outputs[0].slot = 0;
  call.outputs[0].shape = {1};
  call.outputs[0].strides = {1};
  float element = 0;
  const std::vector<BoundOperand> outputs = {{hal::Address(reinterpret_cast<std::byte*>(&element)), &call.outputs[0]}};
  const plan::KernelInfo& info = *plan::find_kernel("fill");
  REQUIRE(info.scratch == plan::Scratch::kNone);
  const auto kernel = make_kernel(Call(call, info, outputs, {}, {}, device), [&counts, temporary, kept] {
    counts.take(kept);
    counts.take(temporary);
    counts.take(-temporary);
  });
  Queue queue;
  kernel->run(queue);
  return device.beyond();
}

TEST_CASE("a kernel that takes what its plan counts passes") {
  Counts counts;
  CHECK(!run(counts, plan::kScratchSlack, 0));
  CHECK(counts.now == 0);
}

TEST_CASE("a kernel that takes more is told by its name, with both numbers") {
  Counts counts;
  counts.take(1 << 20);  // somebody else's
  const auto beyond = run(counts, plan::kScratchSlack + 1, 0);
  REQUIRE(beyond);
  CHECK(beyond->call == "fill");
  CHECK(beyond->taken == 65537);
  CHECK(beyond->counted == 65536);
}

TEST_CASE("what a library keeps for later calls is no scratch of the call") {
  Counts counts;
  CHECK(!run(counts, 100, 32 << 20));
  CHECK(counts.now == 32 << 20);
  CHECK(!run(counts, plan::kScratchSlack, 0));
}

// q, k, v, y, g and their gradients are 1 MiB each; the kernel takes 17 splits of [8, 1024, 64] in f32 beside them.
TEST_CASE("the splits of FlashAttention's backward are counted on GPUs, and nowhere else") {
  plan::KernelCall call;
  call.kernel = "scaled_dot_product_attention_backward";
  plan::Operand head;
  head.slot = 0;
  head.dtype = DType::kBF16;
  head.shape = {1, 8, 1024, 64};
  head.strides = {8 * 1024 * 64, 1024 * 64, 64, 1};
  plan::Operand statistics = head;
  statistics.dtype = DType::kF32;
  statistics.shape = {1, 8, 1024};
  statistics.strides = {8 * 1024, 1024, 1};
  call.inputs = {head, head, head, head, head, statistics};
  call.outputs = {head, head, head};
  const plan::KernelInfo& info = *plan::find_kernel(call.kernel);
  constexpr int64_t kSplits = (132 + 7) / 8, kSum = int64_t{8} * 1024 * 64 * 4;
  CHECK(plan::scratch_bytes(info, call, plan::DeviceKind::kCuda) > kSplits * kSum + 3 * (int64_t{1} << 20));
  CHECK(plan::scratch_bytes(info, call, plan::DeviceKind::kCuda) -
            plan::scratch_bytes(info, call, plan::DeviceKind::kCpu) ==
        (160 + 8) * int64_t{1024} * 64 * 4);
}

}  // namespace
}  // namespace piper::kernels
