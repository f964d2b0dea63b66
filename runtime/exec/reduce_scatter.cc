// `reduce_scatter`: each rank's own part of the sum over a communicator's ranks, in position order.
#include "runtime/hal/cpu/reduce_scatter.h"

#include "runtime/exec/prepare.h"

namespace piper::exec {

namespace {

class PreparedReduceScatter : public PreparedInstruction {
 public:
  explicit PreparedReduceScatter(std::unique_ptr<hal::ReduceScatter> collective) : collective_(std::move(collective)) {}
  Status execute(const StepContext& context) override { return collective_->run(context.wait); }

 private:
  std::unique_ptr<hal::ReduceScatter> collective_;
};

}  // namespace

Prepared prepare_reduce_scatter(const plan::ReduceScatter& reduce_scatter, int32_t stream, PrepareContext& context) {
  PIPER_ASSIGN(const plan::Communicator* group, group_of(reduce_scatter.communicator, context));
  PIPER_ASSIGN(const DType dtype, summed_type(reduce_scatter.types));
  hal::ReduceScatterSpec spec;
  spec.group = group->ranks;
  spec.channel = context.group_channels.at(static_cast<size_t>(reduce_scatter.communicator));
  spec.data = context.at(reduce_scatter.data);
  spec.out = context.at(reduce_scatter.out);
  spec.count = reduce_scatter.count;
  spec.dtype = dtype;
  spec.scratch = context.group_scratch.at(static_cast<size_t>(stream));
  spec.add_f32 = &kernels::add_f32;
  return std::unique_ptr<PreparedInstruction>(
      std::make_unique<PreparedReduceScatter>(hal::ReduceScatter::prepare(*context.transport, spec)));
}

}  // namespace piper::exec
