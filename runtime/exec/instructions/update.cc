// `update`: a program of the optimizer's kernels, which clear the gradients that they use.
#include "runtime/exec/instructions/prepare.h"

namespace piper::exec {

namespace {

class UpdateCommand : public ProgramCommand {
 public:
  UpdateCommand(const plan::Bundle& bundle, std::unique_ptr<BoundProgram> program)
      : ProgramCommand(bundle, *program), program_(std::move(program)) {}

 private:
  std::unique_ptr<BoundProgram> program_;
};

}  // namespace

hal::MadeCommand prepare_update(const plan::Update& update, int32_t, PrepareContext& context) {
  const plan::Optimizer& optimizer = context.bundle->manifest.optimizer;
  const plan::OptimizerGroup& group = optimizer.groups.at(static_cast<size_t>(update.group));
  PIPER_ASSIGN(auto bound, bind_program(update.program, update.arguments, update.workspace, context,
                                        {.optimizer = &optimizer, .weight_decay = group.weight_decay}));
  return std::unique_ptr<hal::Command>(std::make_unique<UpdateCommand>(*context.bundle, std::move(bound)));
}

}  // namespace piper::exec
