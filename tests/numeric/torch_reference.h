// The gradients of a graph as LibTorch's autograd gives them: the forward ops are executed with ATen
// on tensors that require a gradient, then `backward()` runs. Independent of autodiff/rules and of
// the runtime's kernels. Knows every differentiable operator but dropout, whose generator is ours.
#pragma once

#include <optional>
#include <vector>

#include "tests/numeric/interpreter.h"

namespace piper::numeric {

struct TorchResult {
  Tensor loss;
  std::vector<std::optional<Tensor>> gradients;  // [parameter of the graph]; nullopt where it has none
};
// Executes forward ops [0, num_ops) on the sources that `values` holds.
TorchResult torch_gradients(const ir::Graph& graph, size_t num_ops, Interpreter& values);

}  // namespace piper::numeric
