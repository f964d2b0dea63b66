// `update`: a program of the optimizer's kernels, which clear the gradients that they use.
#include "runtime/exec/instructions/prepare.h"
#include "schemas/plan/optimizers.h"

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
  const plan::GroupUpdate group = plan::group_update(context.bundle->manifest.optimizer, update.group);
  PIPER_ASSIGN(auto bound,
               bind_program(update.program, update.arguments, update.workspace, context,
                            {.optimizer = group.numbers, .weight_decay = group.weight_decay, .rate = group.rate}));
  return std::unique_ptr<hal::Command>(std::make_unique<UpdateCommand>(*context.bundle, std::move(bound)));
}

}  // namespace piper::exec
