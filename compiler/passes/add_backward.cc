#include "compiler/passes/add_backward.h"

#include "compiler/autodiff/autodiff.h"

namespace piper::passes {

Status add_backward(ir::Module& module, diag::Diagnostics& diags) {
  for (ir::ModelVariant& variant : module.variants) {
    PIPER_ASSIGN(autodiff::BackwardMap map, autodiff::differentiate(variant.chunked.graph, diags));
    variant.gradients = std::move(map.gradient);
  }
  return Status();
}

}  // namespace piper::passes
