// `all_gather`: the parts of a communicator's ranks, at each of them.
#include "runtime/exec/instructions/prepare.h"
#include "schemas/plan/own_part.h"

namespace piper::exec {

hal::MadeCommand prepare_all_gather(const plan::AllGather& all_gather, int32_t, PrepareContext& context) {
  hal::GatherOperands operands;
  operands.part = context.at(plan::own_part(*context.plan, all_gather));
  operands.data = context.at(all_gather.data);
  operands.bytes = all_gather.bytes();
  return context.group(all_gather.communicator).all_gather(operands);
}

}  // namespace piper::exec
