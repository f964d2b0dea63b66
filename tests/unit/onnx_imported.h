// A model written in a test, imported operator by operator and folded: its ops as text, or the refusal. The unit tests
// of the importer share it.
#pragma once

#include <catch2/catch.hpp>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compiler/frontend/fold.h"
#include "compiler/frontend/onnx/import_nodes.h"
#include "tests/unit/onnx_binder.h"
#include "tests/unit/onnx_writer.h"

namespace piper::test {

// "linear(x, w, b) f32[2, 3]" for each op of the folded graph; constants appear as "const".
struct Imported {
  ir::Graph graph;
  std::vector<std::string> ops;
};

inline std::string text(const ir::Graph& graph, ir::OpId id) {
  const ir::Op& op = graph.op(id);
  std::string out = std::string(ir::op_name(op.kind)) + "(";
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ir::ValueId v = op.operands[i];
    const bool constant = v.valid() && graph.value(v).kind == ir::ValueKind::kConstant;
    out += (i > 0 ? ", " : "") + (!v.valid() ? std::string("-")
                                  : constant ? std::string("const")
                                             : graph.value(v).name);
  }
  return out + ") " + ir::to_string(graph.type(op.results[0]));
}

inline Imported import_model(const ModelWriter& m, int64_t batch = 2) {
  Result<OnnxFile> file = read_onnx_bytes(m.bytes());
  REQUIRE(file.ok());
  std::optional<frontend::BoundModel> model = bind_plainly(*file, batch);
  REQUIRE(model);
  diag::Diagnostics diags;
  const Status status = import_nodes(*model, diags);
  INFO(diags.render_text(false));
  REQUIRE(status.ok());
  Imported out{frontend::fold(model->graph), {}};
  for (size_t i = 0; i < out.graph.num_ops(); ++i) out.ops.push_back(text(out.graph, ir::OpId(i)));
  return out;
}

using Ops = std::vector<std::string>;
inline Ops ops_of(const ModelWriter& m, int64_t batch = 2) { return import_model(m, batch).ops; }

struct Refusal {
  std::string code, text;
};
inline Refusal refusal(const ModelWriter& m, const FoldLimits& limits = {}) {
  Result<OnnxFile> file = read_onnx_bytes(m.bytes());
  REQUIRE(file.ok());
  std::optional<frontend::BoundModel> model = bind_plainly(*file, 2);
  REQUIRE(model);
  diag::Diagnostics diags;
  const Status status = import_nodes(*model, diags, limits);
  REQUIRE(!status.ok());
  REQUIRE(diags.all().size() == 1);
  return {diags.all()[0].code, diags.render_text(false)};
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline ModelWriter with_input(const std::vector<std::string>& dims, int64_t opset = 20) {
  ModelWriter m(opset);
  m.input("x", ElemCode::kFloat, dims);
  m.output("y");
  return m;
}

template <class Attributes>
Attributes attributes_of_last(const Imported& g) {
  return std::get<Attributes>(g.graph.op(ir::OpId(g.graph.num_ops() - 1)).attrs);
}

}  // namespace piper::test
