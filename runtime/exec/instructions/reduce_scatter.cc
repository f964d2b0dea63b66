// `reduce_scatter`: each rank's own part of the sum over a communicator's ranks.
#include "runtime/exec/instructions/prepare.h"
#include "schemas/plan/own_part.h"

namespace piper::exec {

hal::MadeCommand prepare_reduce_scatter(const plan::ReduceScatter& reduce_scatter, int32_t stream,
                                        PrepareContext& context) {
  hal::SumOperands operands;
  operands.data = context.at(reduce_scatter.data);
  operands.out = context.at(plan::own_part(*context.plan, reduce_scatter));
  operands.count = reduce_scatter.count;
  operands.types = reduce_scatter.types;
  operands.scratch = context.scratch.at(static_cast<size_t>(stream));
  return context.group(reduce_scatter.communicator).reduce_scatter(operands);
}

}  // namespace piper::exec
