#include "compiler/frontend/patterns/recognise.h"

#include "compiler/frontend/experts/recognise_experts.h"
#include "compiler/frontend/fold.h"
#include "compiler/frontend/patterns/attention_sinks.h"
#include "compiler/frontend/patterns/rms_norm.h"
#include "compiler/frontend/patterns/rotary.h"
#include "compiler/frontend/patterns/rows_of_linear.h"

namespace piper::frontend {

ir::Graph recognise(ir::Graph imported) {
  // What norms and attention were made of is dropped by the fold, which also reads masks.
  ir::Graph graph = recognise_attention_sinks(recognise_rms_norm(std::move(imported)));
  return recognise_experts(recognise_rotary(fold(keep_axes_of_rows(std::move(graph)))));
}

}  // namespace piper::frontend
