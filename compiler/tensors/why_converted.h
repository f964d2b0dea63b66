// Why ranks send each other what a conversion converts (ir::is_communication): which value met which operator, in words
// that a plan keeps. Used by passes/build_dag.
#pragma once

#include <optional>
#include <string>

#include "compiler/ir/graph.h"

namespace piper::tensors {

// "partial sums of 'linear' of h.0.mlp.down are summed before 'add' of h.0". `uses`: of the graph.
std::string why_converted(const ir::Graph& graph, const ir::Uses& uses, ir::OpId conversion);
// The line of the strategy that asks for a conversion; none where the graph does not say it.
std::optional<ir::DirectiveOrigin> asked_by(const ir::Provenance& provenance, ir::ProvId id);

}  // namespace piper::tensors
