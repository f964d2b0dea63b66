// `wait`: this stream goes on when the event was recorded in this step.
#include "runtime/exec/instructions/prepare.h"

namespace piper::exec {

hal::MadeCommand prepare_wait(const plan::Wait& wait, int32_t, PrepareContext& context) {
  return context.device->wait_event(*context.events->at(static_cast<size_t>(wait.event)));
}

}  // namespace piper::exec
