#include "compiler/passes/add_backward.h"

#include "compiler/autodiff/autodiff.h"

namespace piper::passes {

Status add_backward(ir::Module& module, diag::Diagnostics& diags) {
  for (ir::ModelVariant& variant : module.variants) {
    PIPER_ASSIGN(variant.gradients, autodiff::differentiate(variant.chunked.graph, diags));
  }
  return Status();
}

}  // namespace piper::passes
