// `all_to_all`: a part from each rank of a communicator to each.
#include "runtime/hal/cpu/all_to_all.h"

#include "runtime/exec/prepare.h"

namespace piper::exec {

namespace {

class PreparedAllToAll : public PreparedInstruction {
 public:
  explicit PreparedAllToAll(std::unique_ptr<hal::AllToAll> collective) : collective_(std::move(collective)) {}
  Status execute(const StepContext& context) override { return collective_->run(context.wait); }

 private:
  std::unique_ptr<hal::AllToAll> collective_;
};

}  // namespace

Prepared prepare_all_to_all(const plan::AllToAll& all_to_all, int32_t, PrepareContext& context) {
  PIPER_ASSIGN(const plan::Communicator* group, group_of(all_to_all.communicator, context));
  hal::AllToAllSpec spec;
  spec.group = group->ranks;
  spec.channel = context.group_channels.at(static_cast<size_t>(all_to_all.communicator));
  spec.send = context.at(all_to_all.send);
  spec.recv = context.at(all_to_all.recv);
  spec.bytes = all_to_all.bytes();
  spec.send_counts = reinterpret_cast<const int64_t*>(context.at(all_to_all.send_counts));
  spec.recv_counts = reinterpret_cast<const int64_t*>(context.at(all_to_all.recv_counts));
  spec.row_bytes = all_to_all.row_bytes();
  return std::unique_ptr<PreparedInstruction>(
      std::make_unique<PreparedAllToAll>(hal::AllToAll::prepare(*context.transport, spec)));
}

}  // namespace piper::exec
