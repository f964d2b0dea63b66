// `recv`: one message from a rank; done when it has arrived.
#include "runtime/exec/prepare.h"

namespace piper::exec {

namespace {

class PreparedRecv : public PreparedInstruction {
 public:
  explicit PreparedRecv(std::unique_ptr<hal::Exchange> exchange) : exchange_(std::move(exchange)) {}
  Status execute(const StepContext& context) override { return exchange_->run(context.wait); }

 private:
  std::unique_ptr<hal::Exchange> exchange_;
};

}  // namespace

Prepared prepare_recv(const plan::Recv& recv, int32_t, PrepareContext& context) {
  PIPER_ASSIGN(const plan::Channel channel, plan_channel(recv.channel, context));
  return std::unique_ptr<PreparedInstruction>(std::make_unique<PreparedRecv>(context.transport->prepare(
      {{hal::Direction::kReceive, channel.peer, channel.id, context.at(recv.data), recv.bytes()}})));
}

}  // namespace piper::exec
