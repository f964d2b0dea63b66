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

Result<int32_t> channel_id(int32_t channel, const PrepareContext& context) {
  const int32_t id = context.plan->channels.at(static_cast<size_t>(channel)).id;
  if (id < 0 || id >= hal::kPlanChannels)
    return Status::failure("R0404", "channel id " + std::to_string(id) + " is not below " + std::to_string(hal::kPlanChannels));
  return id;
}

Prepared prepare_send(const plan::Send& send, int32_t, PrepareContext& context) {
  PIPER_ASSIGN(const int32_t channel, channel_id(send.channel, context));
  return std::unique_ptr<PreparedInstruction>(std::make_unique<PreparedSend>(context.communicator->prepare(
      {{hal::Direction::kSend, send.peer, channel, context.at(send.data), send.bytes}})));
}

}  // namespace piper::exec
