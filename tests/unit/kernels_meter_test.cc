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
  void run(NamedKernel& kernel, hal::Queue&) const override { kernel.execute_metered(counts_); }

 private:
  Counts& counts_;
};

class Queue : public hal::Queue {};

// A call of a kernel that plans count nothing for but the slack.
void run(Counts& counts, int64_t temporary, int64_t kept) {
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
}

TEST_CASE("a kernel that takes what its plan counts passes") {
  Counts counts;
  run(counts, plan::kScratchSlack, 0);
  CHECK(counts.now == 0);
}

TEST_CASE("a kernel that takes more is refused by its name, with both numbers") {
  Counts counts;
  counts.take(1 << 20);  // somebody else's
  CHECK_THROWS_WITH(run(counts, plan::kScratchSlack + 1, 0),
                    "fill: it takes 65537 bytes of scratch, the plan counts 65536");
}

TEST_CASE("what a library keeps for later calls is no scratch of the call") {
  Counts counts;
  run(counts, 100, 32 << 20);
  CHECK(counts.now == 32 << 20);
  run(counts, plan::kScratchSlack, 0);
}

}  // namespace
}  // namespace piper::kernels
