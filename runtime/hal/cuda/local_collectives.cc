#include "runtime/hal/cuda/local_collectives.h"

#include "runtime/hal/cuda/local_links.h"
#include "runtime/hal/group_channels.h"

namespace piper::hal {

namespace {

class LocalCollectives : public Collectives {
 public:
  LocalCollectives(Transport& transport, Device& device, GroupKernels kernels)
      : transport_(transport), device_(device), kernels_(std::move(kernels)) {}

  Result<std::vector<std::unique_ptr<Group>>> open_groups(const std::vector<plan::Communicator>& communicators,
                                                          ControlChannel& control, const WaitControl& wait) override {
    PIPER_ASSIGN(const std::vector<int32_t> channels, agree_on_group_channels(communicators, control, wait));
    std::vector<std::unique_ptr<Group>> groups;
    for (size_t i = 0; i < communicators.size(); ++i) {
      PIPER_ASSIGN(const int64_t position, position_in(communicators[i], transport_.rank()));
      GroupParts parts;
      parts.exchange = [this](const std::vector<DeviceTransfer>& t) { return local_exchange(transport_, t); };
      parts.sum = kernels_.sum;
      parts.convert = kernels_.convert;
      parts.copy = [this](Address to, Address from, int64_t bytes) { return device_.copy(to, from, bytes); };
      groups.push_back(make_position_group(std::move(parts), communicators[i].ranks, position, channels[i]));
    }
    return groups;
  }
  MadeCommand send(const plan::Channel& channel, Address data, int64_t bytes) override {
    PIPER_RETURN_IF_ERROR(check_channel(channel));
    return local_exchange(transport_, {{Direction::kSend, channel.peer, channel.id, data, bytes}});
  }
  MadeCommand recv(const plan::Channel& channel, Address data, int64_t bytes) override {
    PIPER_RETURN_IF_ERROR(check_channel(channel));
    return local_exchange(transport_, {{Direction::kReceive, channel.peer, channel.id, data, bytes}});
  }
  int64_t buffer_bytes() const override { return transport_.buffer_bytes(); }
  void keep(std::shared_ptr<const void> memory) override { transport_.keep(std::move(memory)); }

 private:
  Transport& transport_;
  Device& device_;
  GroupKernels kernels_;
};

}  // namespace

std::unique_ptr<Collectives> make_cuda_local_collectives(Transport& transport, Device& device, GroupKernels kernels) {
  return std::make_unique<LocalCollectives>(transport, device, std::move(kernels));
}

}  // namespace piper::hal
