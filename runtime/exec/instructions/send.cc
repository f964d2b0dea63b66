// `send`: one message to a rank; done when the memory may be written again.
#include "runtime/exec/instructions/prepare.h"

namespace piper::exec {

hal::MadeCommand prepare_send(const plan::Send& send, int32_t, PrepareContext& context) {
  return context.collectives->send(context.channel(send.channel), context.at(send.data), send.bytes());
}

}  // namespace piper::exec
