// A graph of one sample, made of the same graph at two other numbers of samples by drawing a line through each extent.
// Bound to one sample itself a model has other operators: p[:1] and p[0] over the batch take nothing away, axes of one
// vanish, and every axis can pass for the batch.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/ir/graph.h"

namespace piper::frontend {

// nullopt: the two are not one program, or an extent or an index is on no line.
std::optional<ir::Graph> instantiate(ir::Graph fewer, int64_t few, const ir::Graph& more, int64_t many,
                                     int64_t samples);

}  // namespace piper::frontend
