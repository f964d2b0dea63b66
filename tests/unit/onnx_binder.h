// Binds an ONNX file's inputs and initializers with one extent for every symbol, for tests and the
// fuzzer of the operator-by-operator importer: float initializers with axes are parameters, all
// others, buffers and those called running_* constants. The compiler's own binding knows more (kinds, ties, symbols by
// name).
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "compiler/frontend/bound_model.h"

namespace piper::test {

// nullopt where an element type or an extent has no place in the op set.
inline std::optional<frontend::BoundModel> bind_plainly(const frontend::onnx::OnnxFile& file, int64_t extent) {
  namespace onnx = frontend::onnx;
  constexpr int64_t kMostElements = int64_t{1} << 24;
  frontend::BoundModel out;
  out.file = &file;
  for (const onnx::OnnxValueInfo& v : file.inputs) {
    const std::optional<DType> dtype = onnx::dtype_of(v.elem_type);
    ir::TensorType type{dtype.value_or(DType::kF32), {}};
    int64_t elements = 1;
    for (const onnx::OnnxDim& d : v.dims) {
      type.shape.push_back(d.value < 0 ? extent : d.value);
      if (type.shape.back() > kMostElements || (elements *= std::max<int64_t>(type.shape.back(), 1)) > kMostElements)
        return std::nullopt;
    }
    if (!dtype || v.name.empty() || out.values.count(v.name) > 0) return std::nullopt;
    out.values[v.name] = out.graph.add_input(v.name, type, true);
  }
  std::set<std::string> buffers;
  for (const onnx::OnnxValueInfo& v : file.value_info) {
    const std::string_view* kind = v.metadata.find("pkg.torch.export.graph_signature.InputSpec.kind");
    if (kind != nullptr && *kind == "BUFFER") buffers.insert(v.name);
  }
  for (const onnx::OnnxTensor& t : file.initializers) {
    const std::optional<DType> dtype = onnx::dtype_of(t.elem_type);
    if (!dtype || out.values.count(t.name) > 0) return std::nullopt;
    Result<frontend::ConstantTensor> value = onnx::tensor_value(file, t);
    if (!value.ok()) return std::nullopt;
    ir::WeightSource source;
    source.bytes = static_cast<int64_t>(value->data()->size());
    source.data = value->data();
    const bool parameter =
        is_floating(*dtype) && !t.dims.empty() && t.name.rfind("running_", 0) != 0 && buffers.count(t.name) == 0;
    out.values[t.name] = parameter ? out.graph.add_parameter({t.name}, value->type, true, source)
                                   : out.graph.add_constant(t.name, value->type, source);
  }
  return out;
}

}  // namespace piper::test
