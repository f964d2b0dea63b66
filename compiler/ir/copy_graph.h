// Copies a graph op by op into another, for passes that put other ops in some places. Inputs, parameters,
// buffers and, unless the caller says otherwise, constants are copied at once; the pass walks the ops in order and
// copies or replaces each. It changes no op itself and drops nothing.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"

namespace piper::ir {

class CopyGraph {
 public:
  enum class Constants : uint8_t {
    kCopied,
    kLeft,  // for passes that make constants themselves: each is in `to` once it is `place`d
  };
  // `to` must be empty. Both must outlive this object.
  CopyGraph(const Graph& from, Graph& to, Constants constants = Constants::kCopied);

  // The copy of a value of `from`; invalid stays invalid. Values of ops: once they are copied or `place`d.
  ValueId moved(ValueId old);
  bool is_moved(ValueId old) const { return moved_[old.index].valid(); }
  ScopeId moved_scope(ScopeId old) { return to_.intern_scope(from_.scope(old)); }
  // Copies the op; its operands must have their copies.
  OpId copy_op(OpId old);
  // Appends an op of `to` where `old` was: its scope, origin, phase, chunk and name. The first results have the
  // types of old's results and stand for them; `more` results follow. `operands` are of `to`, `attrs` of `from`.
  OpId append_like(OpId old, OpKind kind, Attrs attrs, std::vector<ValueId> operands,
                   std::vector<TensorType> more = {});
  // From now on `made` stands for `old`.
  void place(ValueId old, ValueId made) { moved_[old.index] = made; }
  // Copies the outputs and the losses.
  void finish();

 private:
  const Graph& from_;
  Graph& to_;
  std::vector<ValueId> moved_;
};

// Whether an op does something besides making its results: it must stay though nothing reads them.
bool has_effect(const Op& op);
// Removes ops whose results nothing reads, unless they have an effect.
void drop_unread(Graph& graph);

}  // namespace piper::ir
