#include "compiler/driver/derive_evaluation.h"

#include "compiler/emit/lower_programs.h"
#include "compiler/passes/build_dag.h"
#include "compiler/passes/insert_gathers.h"
#include "compiler/passes/insert_transfers.h"
#include "compiler/evaluation/keep_forwards.h"
#include "compiler/passes/order_nodes.h"

namespace piper::driver {

// What orders say is about backwards as well: the forwards of an evaluation are ordered by their data alone.
Status derive_evaluation(Compilation& c, diag::Diagnostics& diags) {
  if (!c.strategy.eval) return Status();
  ir::Module& module = c.evaluation.emplace(c.module);
  PIPER_RETURN_IF_ERROR(evaluation::keep_forwards(module, c.strategy.eval_span, diags));
  emit::lower_programs(module);
  passes::build_dag(module);
  passes::insert_transfers(module);
  PIPER_RETURN_IF_ERROR(passes::order_nodes(module, diags));
  passes::insert_gathers(module);
  return Status();
}

}  // namespace piper::driver
