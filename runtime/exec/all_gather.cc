// `all_gather`: the parts of a communicator's ranks, at each of them.
#include "runtime/hal/cpu/all_gather.h"

#include "runtime/exec/prepare.h"

namespace piper::exec {

namespace {

class PreparedAllGather : public PreparedInstruction {
 public:
  explicit PreparedAllGather(std::unique_ptr<hal::AllGather> collective) : collective_(std::move(collective)) {}
  Status execute(const StepContext& context) override { return collective_->run(context.wait); }

 private:
  std::unique_ptr<hal::AllGather> collective_;
};

}  // namespace

Prepared prepare_all_gather(const plan::AllGather& all_gather, int32_t, PrepareContext& context) {
  PIPER_ASSIGN(const plan::Communicator* group, group_of(all_gather.communicator, context));
  hal::AllGatherSpec spec;
  spec.group = group->ranks;
  spec.channel = context.group_channels.at(static_cast<size_t>(all_gather.communicator)) + 1;
  spec.part = context.at(all_gather.part);
  spec.data = context.at(all_gather.data);
  spec.bytes = all_gather.bytes();
  return std::unique_ptr<PreparedInstruction>(
      std::make_unique<PreparedAllGather>(hal::AllGather::prepare(*context.transport, spec)));
}

}  // namespace piper::exec
