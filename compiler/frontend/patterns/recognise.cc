#include "compiler/frontend/patterns/recognise.h"

#include "compiler/frontend/experts/recognise_experts.h"
#include "compiler/frontend/fold.h"
#include "compiler/frontend/patterns/rms_norm.h"
#include "compiler/frontend/patterns/rotary.h"

namespace piper::frontend {

ir::Graph recognise(ir::Graph imported) {
  // What norms were made of is dropped by the fold.
  return recognise_experts(recognise_rotary(fold(recognise_rms_norm(std::move(imported)))));
}

}  // namespace piper::frontend
