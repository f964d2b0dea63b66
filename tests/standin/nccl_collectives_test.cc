// The conformance cases of collectives over the stand-in for NCCL, for worlds of 1 to 5 ranks, each on a GPU of its
// own.
#include <catch2/catch.hpp>

#include <map>
#include <thread>

#include "runtime/hal/cuda/cuda_device.h"
#include "runtime/hal/local/local_transport.h"
#include "runtime/hal/nccl/nccl_collectives.h"
#include "runtime/hal/transport_channel.h"
#include "tests/conformance/collective_cases.h"
#include "tests/standin/standin.h"
#include "tests/standin/standin_backend.h"

namespace piper::conformance {
namespace {

const hal::WaitControl kWait{nullptr, std::chrono::seconds(60)};

class NcclRank : public CollectiveRank, private hal::StepObserver {
 public:
  NcclRank(int32_t rank, int32_t world_size, plan::Summing summing, hal::ControlChannel& control)
      : world_size_(world_size), summing_(summing) {
    plan_.rank = rank;
    for (int32_t size = rank + 1; size <= world_size; ++size) {
      std::vector<int32_t> ranks;
      for (int32_t r = 0; r < size; ++r) ranks.push_back(r);
      plan_.communicators.push_back({"group", ranks});
      if (size > 1) plan_.communicators.push_back({"group", {ranks.rbegin(), ranks.rend()}});
    }
    device_ = std::move(hal::make_cuda_device({.ordinal = rank}, {})).value();
    collectives_ = hal::make_nccl_collectives(plan_, summing, *device_, standin::group_kernels());
    groups_ = std::move(collectives_->open_groups(plan_.communicators, control, kWait)).value();
  }
  int32_t rank() const override { return plan_.rank; }
  int32_t world_size() const override { return world_size_; }
  bool adds_by_position() const override { return summing_ == plan::Summing::kPosition; }
  hal::Group& group(const std::vector<int32_t>& ranks) override {
    size_t i = 0;
    while (plan_.communicators.at(i).ranks != ranks) ++i;
    return *groups_[i];
  }
  void show(std::byte* memory, size_t bytes) override {
    if (bytes > 0) shown_[memory] = std::move(device_->allocate(static_cast<int64_t>(bytes))).value();
  }
  void hide(std::byte* memory) override { shown_.erase(memory); }
  hal::Address address_of(std::byte* place) override {
    auto found = shown_.upper_bound(place);
    if (found == shown_.begin()) return {};
    --found;
    return found->second->base() + (place - found->first);
  }
  Status run(hal::Command& command) override {
    for (const auto& [memory, region] : shown_)
      PIPER_RETURN_IF_ERROR(device_->write(region->base(), memory, region->bytes()));
    PIPER_ASSIGN(const auto recording, device_->record({{0, 0, &command}}));
    failure_ = Status();
    Status status = recording->submit(kWait, *this, false);
    if (status.ok()) status = device_->finish();
    if (hal::is_stopped(status)) return std::move(failure_);
    PIPER_RETURN_IF_ERROR(std::move(status));
    for (const auto& [memory, region] : shown_)
      PIPER_RETURN_IF_ERROR(device_->read(memory, region->base(), region->bytes()));
    return {};
  }

 private:
  void failed(int32_t, int32_t, Status failure, const std::vector<int32_t>&) override { failure_ = std::move(failure); }
  void ran(int32_t, Clock::time_point, Clock::time_point, int64_t) override {}
  Status watch() override { return collectives_->check(); }

  int32_t world_size_;
  plan::Summing summing_;
  plan::RankPlan plan_;
  std::unique_ptr<hal::Device> device_;
  std::map<std::byte*, std::unique_ptr<hal::MemoryRegion>> shown_;
  std::unique_ptr<hal::Collectives> collectives_;
  std::vector<std::unique_ptr<hal::Group>> groups_;
  Status failure_;
};

void run_everywhere(int32_t world_size, plan::Summing summing) {
  standin::set_devices(world_size);
  const std::vector<CollectiveCase> cases = collective_cases();
  std::vector<std::vector<std::string>> wrong(static_cast<size_t>(world_size));
  hal::LocalWorld world(world_size);
  std::vector<std::thread> ranks;
  for (int32_t r = 0; r < world_size; ++r)
    ranks.emplace_back([&, r] {
      const auto transport = world.transport(r);
      hal::TransportChannel control(*transport);
      NcclRank rank(r, world_size, summing, control);
      for (const CollectiveCase& test : cases) {
        wrong[static_cast<size_t>(r)].push_back(test.run(rank));
        (void)control.barrier(kWait);
      }
    });
  for (std::thread& rank : ranks) rank.join();
  standin::set_devices(1);
  for (int32_t r = 0; r < world_size; ++r)
    for (size_t i = 0; i < cases.size(); ++i) {
      INFO(cases[i].name << ", rank " << r << " of " << world_size);
      CHECK(wrong[static_cast<size_t>(r)][i] == "");
    }
}

TEST_CASE("collectives over NCCL conform, with the bits of the CPU") {
  for (int32_t world_size = 1; world_size <= 5; ++world_size) run_everywhere(world_size, plan::Summing::kPosition);
}

TEST_CASE("collectives over NCCL conform where NCCL adds") {
  for (int32_t world_size = 1; world_size <= 5; ++world_size) run_everywhere(world_size, plan::Summing::kLibrary);
}

}  // namespace
}  // namespace piper::conformance
