#include "compiler/passes/add_backward.h"

#include "compiler/autodiff/autodiff.h"

namespace piper::passes {

Status add_backward(ir::Module& module, diag::Diagnostics& diags) {
  ir::BuilderChoices choices;
  for (ir::ModelVariant& variant : module.variants) {
    PIPER_ASSIGN(variant.gradients, autodiff::differentiate(variant.chunked.graph, diags, &choices));
    choices.follows = true;
    choices.next = 0;
  }
  return Status();
}

}  // namespace piper::passes
