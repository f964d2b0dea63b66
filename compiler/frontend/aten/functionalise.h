// Rewrites a program that changes tensors in place (`x.add_(y)`, `x[:, 0] = y`) as one that makes new
// values: every later reader of the tensor, or of a view of it, reads the new one. A change through
// a view is written back into the viewed tensor (select_scatter, slice_scatter, a view back).
// The gradient is that of PyTorch's in-place operators. Used by readers of containers that keep such
// calls (`.pt2`); ONNX exports have been rewritten by the exporter.
#pragma once

#include <map>
#include <string>

#include "compiler/frontend/aten/program.h"
#include "schemas/base/status.h"

namespace piper::frontend::aten {

enum class Origin : uint8_t {
  kInput,  // may be changed: the caller's tensor is not seen again
  kParameter,
  kBuffer,
  kConstant,
};

// `origins`: of each name that no call makes; absent names are inputs. `program` has its calls in
// the order in which they run. The result is indexed. Errors: P0313 a change that cannot be followed
// (through expand, a piece of a split, a tensor that may or may not share memory), P0314 a change of
// a parameter, buffer or constant of the model; num_batches_tracked is exempt, no kernel reads it.
Status functionalise(Program& program, const std::map<std::string, Origin>& origins);

}  // namespace piper::frontend::aten
