// `all_reduce`: the sum over a communicator's ranks, in position order.
#include "runtime/hal/cpu/all_reduce.h"

#include "runtime/exec/prepare.h"

namespace piper::exec {

namespace {

class PreparedAllReduce : public PreparedInstruction {
 public:
  explicit PreparedAllReduce(std::unique_ptr<hal::AllReduce> collective) : collective_(std::move(collective)) {}
  Status execute(const StepContext& context) override { return collective_->run(context.wait); }

 private:
  std::unique_ptr<hal::AllReduce> collective_;
};

}  // namespace

Prepared prepare_all_reduce(const plan::AllReduce& all_reduce, int32_t stream, PrepareContext& context) {
  PIPER_ASSIGN(const plan::Communicator* group, group_of(all_reduce.communicator, context));
  PIPER_ASSIGN(const DType dtype, summed_type(all_reduce.types));
  hal::AllReduceSpec spec;
  spec.group = group->ranks;
  spec.channel = context.group_channels.at(static_cast<size_t>(all_reduce.communicator));
  spec.data = context.at(all_reduce.data);
  spec.count = all_reduce.count;
  spec.dtype = dtype;
  spec.scratch = context.group_scratch.at(static_cast<size_t>(stream));
  spec.add_f32 = &kernels::add_f32;
  return std::unique_ptr<PreparedInstruction>(
      std::make_unique<PreparedAllReduce>(hal::AllReduce::prepare(*context.transport, spec)));
}

}  // namespace piper::exec
