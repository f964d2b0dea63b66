// Executes a model graph op by op on host buffers through the runtime's kernels: the numeric tests'
// way from a graph to numbers, without programs, plans or ranks. View operators become strides, as
// in lowering; step_sum is the identity (one piece). Every kernel is bound once, so that a graph
// can run again and again on changed parameters. Not fast, not for training.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "runtime/kernels/kernel.h"
#include "schemas/base/status.h"

namespace piper::numeric {

// A dense row-major tensor on the host.
struct Tensor {
  ir::TensorType type;
  std::vector<std::byte> bytes;
  // Elements as double, whatever the dtype.
  double at(int64_t index) const;
  void set(int64_t index, double number);
};

class Interpreter {
 public:
  // Binds ops [0, num_ops). Reads parameters, buffers and constants from their sources; what has none
  // starts at zero. `graph` must live as long as this object.
  static Result<std::unique_ptr<Interpreter>> make(const ir::Graph& graph);

  // The memory of a value that no op produces.
  Tensor& source(ir::ValueId value);
  // The memory of a communication's result, for a test that runs several ranks and exchanges between them.
  Tensor& received(ir::ValueId value);
  // Runs ops [first, end) in index order. Gradients are added to; clear_gradients() before a step.
  void run(size_t first, size_t end);
  void run() { run(0, steps_.size()); }
  // A dense copy of any value.
  Tensor value(ir::ValueId value) const;
  // The accumulator of a parameter; nullptr where no accumulate_grad names it.
  const Tensor* gradient(ir::ValueId parameter) const;
  void clear_gradients();

 private:
  // Where a value lies: a buffer, seen through strides.
  struct View {
    size_t buffer = 0;
    int64_t offset = 0;  // elements
    std::vector<int64_t> shape, strides;
    DType dtype = DType::kF32;
  };
  // What one op does at run time; views do nothing.
  struct Step {
    std::unique_ptr<plan::KernelCall> call;  // outlives its kernel
    std::unique_ptr<kernels::PreparedKernel> kernel;
    int64_t accumulate_into = -1;  // index into gradients_
    View accumulate_from;
  };

  explicit Interpreter(const ir::Graph& graph) : graph_(graph) {}
  Status prepare();
  Status prepare_source(ir::ValueId value);
  Status prepare_op(const ir::Op& op);
  Status bind(Step& step, const std::string& kernel, const std::vector<View>& outputs,
              const std::vector<const View*>& inputs, std::vector<plan::Attr> attrs);
  View new_buffer(const ir::TensorType& type);
  plan::Operand operand_of(const View& view) const;
  kernels::BoundOperand bound(const View& view, const plan::Operand& operand);
  void add_gradient(const Step& step);

  const ir::Graph& graph_;
  std::vector<std::unique_ptr<Tensor>> buffers_;
  std::vector<View> views_;  // [value]
  std::vector<Step> steps_;  // [op]
  std::vector<std::unique_ptr<Tensor>> gradients_;
  std::vector<int64_t> gradient_of_;  // [value] -> index into gradients_, -1 none
};

// The attributes of an op as a plan's kernel call holds them: field order, dtypes by name, value
// ids left out.
std::vector<plan::Attr> plan_attrs(const ir::Attrs& attrs);

}  // namespace piper::numeric
