#include "runtime/hal/transport.h"

namespace piper::hal {

void Transport::keep(std::shared_ptr<const void> memory) {
  std::lock_guard lock(mutex_);
  kept_.push_back(std::move(memory));
}

std::string describe_wait(const Transfer& transfer) {
  return "rank " + std::to_string(transfer.peer) +
         (transfer.direction == Direction::kSend ? " to receive " : " to send ") + std::to_string(transfer.bytes) +
         " bytes on channel " + std::to_string(transfer.channel);
}

}  // namespace piper::hal
