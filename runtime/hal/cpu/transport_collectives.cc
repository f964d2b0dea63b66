#include "runtime/hal/cpu/transport_collectives.h"

#include "runtime/hal/cpu/all_gather.h"
#include "runtime/hal/cpu/all_reduce.h"
#include "runtime/hal/cpu/all_to_all.h"
#include "runtime/hal/cpu/reduce_scatter.h"
#include "runtime/hal/group_channels.h"

namespace piper::hal {

namespace {

// An exchange or a collective on the queue's own thread, which blocks until it is done.
template <class Communication>
class Communicate : public Command {
 public:
  explicit Communicate(std::unique_ptr<Communication> communication) : communication_(std::move(communication)) {}
  Status issue(Queue&, const Submission& submission) override { return communication_->run(submission.wait); }

 private:
  std::unique_ptr<Communication> communication_;
};

template <class Communication>
std::unique_ptr<Command> command_of(std::unique_ptr<Communication> communication) {
  return std::make_unique<Communicate<Communication>>(std::move(communication));
}

Status check_types(const plan::SumTypes& types) {
  if (can_sum(types)) return {};
  return Status::failure("R0404", "CPU ranks cannot sum " + std::string(dtype_name(types.message)) + " as " +
                                      std::string(dtype_name(types.sum)) + " into " +
                                      std::string(dtype_name(types.data)));
}

class TransportGroup : public Group {
 public:
  // `channel` and the next one are the group's own.
  TransportGroup(Transport& transport, const plan::Communicator& communicator, int32_t channel, AddF32 add_f32)
      : transport_(transport), communicator_(communicator), channel_(channel), add_f32_(add_f32) {}

  MadeCommand all_reduce(const SumOperands& operands) override {
    PIPER_RETURN_IF_ERROR(check_member());
    PIPER_RETURN_IF_ERROR(check_types(operands.types));
    AllReduceSpec spec;
    spec.group = communicator_.ranks;
    spec.channel = channel_;
    spec.data = operands.data.in_device();
    spec.count = operands.count;
    spec.types = operands.types;
    spec.scratch = operands.scratch.in_device();
    spec.add_f32 = add_f32_;
    return command_of(AllReduce::prepare(transport_, spec));
  }

  MadeCommand reduce_scatter(const SumOperands& operands) override {
    PIPER_RETURN_IF_ERROR(check_member());
    PIPER_RETURN_IF_ERROR(check_types(operands.types));
    ReduceScatterSpec spec;
    spec.group = communicator_.ranks;
    spec.channel = channel_;
    spec.data = operands.data.in_device();
    spec.out = operands.out.in_device();
    spec.count = operands.count;
    spec.types = operands.types;
    spec.scratch = operands.scratch.in_device();
    spec.add_f32 = add_f32_;
    return command_of(ReduceScatter::prepare(transport_, spec));
  }

  MadeCommand all_gather(const GatherOperands& operands) override {
    PIPER_RETURN_IF_ERROR(check_member());
    AllGatherSpec spec;
    spec.group = communicator_.ranks;
    spec.channel = channel_ + 1;
    spec.part = operands.part.in_device();
    spec.data = operands.data.in_device();
    spec.bytes = operands.bytes;
    return command_of(AllGather::prepare(transport_, spec));
  }

  MadeCommand all_to_all(const ExchangeOperands& operands) override {
    PIPER_RETURN_IF_ERROR(check_member());
    AllToAllSpec spec;
    spec.group = communicator_.ranks;
    spec.channel = channel_;
    spec.send = operands.send.in_device();
    spec.recv = operands.recv.in_device();
    spec.bytes = operands.bytes;
    spec.send_counts = operands.send_counts.in_device_as<const int64_t>();
    spec.recv_counts = operands.recv_counts.in_device_as<const int64_t>();
    spec.row_bytes = operands.row_bytes;
    return command_of(AllToAll::prepare(transport_, spec));
  }

 private:
  Status check_member() const {
    const auto position = position_in(communicator_, transport_.rank());
    return position.ok() ? Status() : Status::failure(position.error().code, position.error().message);
  }

  Transport& transport_;
  const plan::Communicator& communicator_;
  int32_t channel_;
  AddF32 add_f32_;
};

class TransportCollectives : public Collectives {
 public:
  TransportCollectives(Transport& transport, AddF32 add_f32) : transport_(transport), add_f32_(add_f32) {}

  Result<std::vector<std::unique_ptr<Group>>> open_groups(const std::vector<plan::Communicator>& communicators,
                                                          ControlChannel& control, const WaitControl& wait) override {
    PIPER_ASSIGN(const std::vector<int32_t> channels, agree_on_group_channels(communicators, control, wait));
    std::vector<std::unique_ptr<Group>> groups;
    for (size_t i = 0; i < communicators.size(); ++i)
      groups.push_back(std::make_unique<TransportGroup>(transport_, communicators[i], channels[i], add_f32_));
    return groups;
  }

  MadeCommand send(const plan::Channel& channel, Address data, int64_t bytes) override {
    return message(Direction::kSend, channel, data, bytes);
  }
  MadeCommand recv(const plan::Channel& channel, Address data, int64_t bytes) override {
    return message(Direction::kReceive, channel, data, bytes);
  }
  int64_t buffer_bytes() const override { return transport_.buffer_bytes(); }
  void keep(std::shared_ptr<const void> memory) override { transport_.keep(std::move(memory)); }

 private:
  MadeCommand message(Direction direction, const plan::Channel& channel, Address data, int64_t bytes) {
    PIPER_RETURN_IF_ERROR(check_channel(channel));
    return command_of(transport_.prepare({{direction, channel.peer, channel.id, data.in_device(), bytes}}));
  }

  Transport& transport_;
  AddF32 add_f32_;
};

}  // namespace

std::unique_ptr<Collectives> make_transport_collectives(Transport& transport, AddF32 add_f32) {
  return std::make_unique<TransportCollectives>(transport, add_f32);
}

}  // namespace piper::hal
