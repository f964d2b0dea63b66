// Copies a graph op by op into another, for passes that put other ops in some places. Inputs, parameters,
// buffers and constants are copied at once; the pass walks the ops in order and copies or replaces each.
// It changes no op itself and drops nothing.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"

namespace piper::ir {

class CopyGraph {
 public:
  // `to` must be empty. Both must outlive this object.
  CopyGraph(const Graph& from, Graph& to);

  // The copy of a value of `from`; invalid stays invalid. Values of ops: once they are copied or `place`d.
  ValueId moved(ValueId old);
  ScopeId moved_scope(ScopeId old) { return to_.intern_scope(from_.scope(old)); }
  // Copies the op; its operands must have their copies.
  OpId copy_op(OpId old);
  // From now on `made` stands for `old`.
  void place(ValueId old, ValueId made) { moved_[old.index] = made; }
  // Copies the outputs and the losses.
  void finish();

 private:
  const Graph& from_;
  Graph& to_;
  std::vector<ValueId> moved_;
};

// Removes ops whose results nothing reads, unless they have an effect.
void drop_unread(Graph& graph);

}  // namespace piper::ir
