// `recv`: one message from a rank; done when it has arrived.
#include "runtime/exec/instructions/prepare.h"

namespace piper::exec {

hal::MadeCommand prepare_recv(const plan::Recv& recv, int32_t, PrepareContext& context) {
  return context.collectives->recv(context.channel(recv.channel), context.at(recv.data), recv.bytes());
}

}  // namespace piper::exec
