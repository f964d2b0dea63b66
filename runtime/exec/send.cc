// `send`: one message to a rank; done when the memory may be written again.
#include "runtime/exec/prepare.h"

namespace piper::exec {

namespace {

class PreparedSend : public PreparedInstruction {
 public:
  explicit PreparedSend(std::unique_ptr<hal::Exchange> exchange) : exchange_(std::move(exchange)) {}
  Status execute(const StepContext& context) override { return exchange_->run(context.wait); }

 private:
  std::unique_ptr<hal::Exchange> exchange_;
};

}  // namespace

Result<plan::Channel> plan_channel(int32_t index, const PrepareContext& context) {
  const plan::Channel& channel = context.plan->channels.at(static_cast<size_t>(index));
  if (channel.id < 0 || channel.id >= hal::kPlanChannels)
    return Status::failure(
        "R0404", "channel id " + std::to_string(channel.id) + " is not below " + std::to_string(hal::kPlanChannels));
  return channel;
}

Prepared prepare_send(const plan::Send& send, int32_t, PrepareContext& context) {
  PIPER_ASSIGN(const plan::Channel channel, plan_channel(send.channel, context));
  return std::unique_ptr<PreparedInstruction>(std::make_unique<PreparedSend>(context.transport->prepare(
      {{hal::Direction::kSend, channel.peer, channel.id, context.at(send.data), send.bytes()}})));
}

}  // namespace piper::exec
