// `all_to_all`: a part from each rank of a communicator to each.
#include "runtime/exec/instructions/prepare.h"

namespace piper::exec {

hal::MadeCommand prepare_all_to_all(const plan::AllToAll& all_to_all, int32_t, PrepareContext& context) {
  hal::ExchangeOperands operands;
  operands.send = context.at(all_to_all.send);
  operands.recv = context.at(all_to_all.recv);
  operands.bytes = all_to_all.bytes();
  operands.send_counts = context.at(all_to_all.send_counts);
  operands.recv_counts = context.at(all_to_all.recv_counts);
  operands.row_bytes = all_to_all.row_bytes();
  return context.group(all_to_all.communicator).all_to_all(operands);
}

}  // namespace piper::exec
