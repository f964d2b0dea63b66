// `all_reduce`: the sum over a communicator's ranks.
#include "runtime/exec/instructions/prepare.h"

namespace piper::exec {

hal::MadeCommand prepare_all_reduce(const plan::AllReduce& all_reduce, int32_t stream, PrepareContext& context) {
  hal::SumOperands operands;
  operands.data = context.at(all_reduce.data);
  operands.count = all_reduce.count;
  operands.types = all_reduce.types;
  operands.scratch = context.scratch.at(static_cast<size_t>(stream));
  return context.group(all_reduce.communicator).all_reduce(operands);
}

}  // namespace piper::exec
