// Gradients of a whole exported model on the first samples of a data file, by three ways that share
// little: our backward, LibTorch's autograd on our import of the forward, and (by the caller, from
// the printed norms) the framework the model was exported from. A program for developers:
//   model_gradients MODEL.onnx DATA.safetensors BATCH [ROUTE]
// Prints one JSON object; exit status 1 where our gradients and autograd's differ by more than 1e-4 of
// the gradient's norm.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <string>

#include "compiler/autodiff/autodiff.h"
#include "compiler/frontend/model_file.h"
#include "compiler/passes/normalise_losses.h"
#include "compiler/analysis/track_batch.h"
#include "schemas/plan/safetensors.h"
#include "tests/numeric/interpreter.h"
#include "tests/numeric/torch_reference.h"

namespace {

using namespace piper;

double norm(const numeric::Tensor& tensor) {
  double squares = 0;
  for (int64_t i = 0; i < tensor.type.elements(); ++i) squares += tensor.at(i) * tensor.at(i);
  return std::sqrt(squares);
}

double sum(const numeric::Tensor& tensor) {
  double total = 0;
  for (int64_t i = 0; i < tensor.type.elements(); ++i) total += tensor.at(i);
  return total;
}

double distance(const numeric::Tensor& a, const numeric::Tensor& b) {
  double squares = 0;
  for (int64_t i = 0; i < a.type.elements(); ++i) squares += (a.at(i) - b.at(i)) * (a.at(i) - b.at(i));
  return std::sqrt(squares);
}

// The extents of symbolic axes are those of the data.
frontend::BindRequest request_for(const frontend::ModelFile& model, const plan::SafetensorsFile& data, int64_t batch) {
  frontend::BindRequest request;
  request.local_batch = batch;
  for (const frontend::ModelInput& input : model.inputs()) {
    const plan::TensorView* view = data.find(input.name);
    for (size_t i = 1; view != nullptr && i < input.shape.size() && i < view->shape.size(); ++i)
      if (input.shape[i] < 0) request.dims[input.symbols[i]] = view->shape[i];
  }
  return request;
}

Status set_loss(ir::Graph& graph) {
  for (const ir::Graph::Output& output : graph.outputs)
    if (graph.type(output.value).shape.empty() && is_floating(graph.type(output.value).dtype)) {
      graph.loss = output.value;
      return {};
    }
  return Status::failure("", "the model has no scalar output");
}

Status run(int argc, char** argv, bool& agrees) {
  if (argc < 4) return Status::failure("", "usage: model_gradients MODEL.onnx DATA.safetensors BATCH [ROUTE]");
  diag::Diagnostics diags;
  const int64_t batch = std::atoll(argv[3]);
  const auto shown = [&](Status status) {
    return diags.failed() ? Status::failure("", diags.render_text(false)) : std::move(status);
  };
  PIPER_ASSIGN(const plan::SafetensorsFile data, plan::SafetensorsFile::open(argv[2]));
  auto model = frontend::open_model(argv[1], argc > 4 ? argv[4] : "auto", diags);
  if (!model.ok()) return shown(model.take_status());
  auto bound = (*model)->bind(request_for(**model, data, batch), diags);
  if (!bound.ok()) return shown(bound.take_status());
  ir::Graph& graph = bound->graph;
  PIPER_RETURN_IF_ERROR(set_loss(graph));
  if (Status status = passes::normalise_losses(graph, analysis::track_batch(graph, batch), {1}, {}, diags);
      !status.ok())
    return shown(std::move(status));
  const size_t forward = graph.num_ops();
  auto map = autodiff::differentiate(graph, diags);
  if (!map.ok()) return shown(map.take_status());
  PIPER_RETURN_IF_ERROR(ir::verify(graph));

  kernels::initialise_process();
  kernels::enter_worker_thread(1);
  PIPER_ASSIGN(auto interpreter, numeric::Interpreter::make(graph));
  for (const ir::Input& input : graph.inputs()) {
    const plan::TensorView* view = data.find(input.name);
    if (view == nullptr) return Status::failure("", "no data for input '" + input.name + "'");
    numeric::Tensor& tensor = interpreter->source(input.value);
    if (view->dtype != tensor.type.dtype || view->bytes < static_cast<int64_t>(tensor.bytes.size()))
      return Status::failure("", "the data of input '" + input.name + "' does not fit");
    std::memcpy(tensor.bytes.data(), view->data, tensor.bytes.size());
  }
  // Before our own step: batch statistics are written in place.
  const numeric::TorchResult torch = numeric::torch_gradients(graph, forward, *interpreter);
  interpreter->run();
  std::cout << std::setprecision(10) << "{\"loss\": " << interpreter->value(graph.loss).at(0)
            << ", \"loss_autograd\": " << torch.loss.at(0) << ", \"forward_ops\": " << forward
            << ", \"backward_ops\": " << graph.num_ops() - forward << ", \"gradients\": {";
  bool first = true;
  for (size_t i = 0; i < graph.parameters().size(); ++i) {
    const ir::Parameter& parameter = graph.parameters()[i];
    const numeric::Tensor* gradient = interpreter->gradient(parameter.value);
    if (gradient == nullptr || !torch.gradients[i]) {
      if (gradient != nullptr || torch.gradients[i]) agrees = false;
      continue;
    }
    const double apart = distance(*gradient, *torch.gradients[i]);
    if (!(apart <= 1e-4 * norm(*torch.gradients[i]) + 1e-7)) agrees = false;
    std::cout << (first ? "\n" : ",\n") << "\"" << parameter.names[0] << "\": {\"l2\": " << norm(*gradient)
              << ", \"sum\": " << sum(*gradient) << ", \"from_autograd\": " << apart << "}";
    first = false;
  }
  std::cout << "}, \"agrees\": " << (agrees ? "true" : "false") << "}\n";
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  bool agrees = true;
  try {
    if (Status status = run(argc, argv, agrees); !status.ok()) {
      std::cerr << status.error().message << "\n";
      return 2;
    }
  } catch (const std::exception& error) {
    std::cerr << "bug in model_gradients: " << error.what() << "\n";
    return 70;
  }
  return agrees ? 0 : 1;
}
