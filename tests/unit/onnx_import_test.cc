// The operator-by-operator importer on small graphs: what each family becomes after folding.
#include <catch2/catch.hpp>

#include <cstring>

#include <xxhash.h>

#include "compiler/frontend/fold.h"
#include "compiler/frontend/onnx/import_nodes.h"
#include "compiler/frontend/onnx/ops.h"
#include "tests/unit/onnx_binder.h"
#include "tests/unit/onnx_writer.h"

using namespace piper;
using namespace piper::test;

namespace {

// "linear(x, w, b) f32[2, 3]" for each op of the folded graph; constants appear as "const".
struct Imported {
  ir::Graph graph;
  std::vector<std::string> ops;
};

std::string text(const ir::Graph& graph, ir::OpId id) {
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

Imported import_model(const ModelWriter& m, int64_t batch = 2) {
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
Ops ops_of(const ModelWriter& m, int64_t batch = 2) { return import_model(m, batch).ops; }

struct Refusal {
  std::string code, text;
};
Refusal refusal(const ModelWriter& m, const FoldLimits& limits = {}) {
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

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

ModelWriter with_input(const std::vector<std::string>& dims, int64_t opset = 20) {
  ModelWriter m(opset);
  m.input("x", ElemCode::kFloat, dims);
  m.output("y");
  return m;
}

// The int64 elements of the model's output, which must fold.
std::vector<int64_t> folded_ints(const ModelWriter& m) {
  const Imported g = import_model(m);
  REQUIRE(g.ops.empty());
  const std::optional<frontend::ConstantTensor> t = frontend::constant_of(g.graph, g.graph.outputs[0].value);
  REQUIRE(t);
  std::vector<int64_t> out(t->data->size() / 8);
  std::memcpy(out.data(), t->data->data(), t->data->size());
  return out;
}

template <class Attributes>
Attributes attributes_of_last(const Imported& g) {
  return std::get<Attributes>(g.graph.op(ir::OpId(g.graph.num_ops() - 1)).attrs);
}

}  // namespace

// Transpose of a parameter, MatMul and Add are one linear op, as in PyTorch.
TEST_CASE("linear layers are put together") {
  ModelWriter m = with_input({"B", "5", "4"});
  m.weight("w", {3, 4});
  m.weight("b", {3});
  m.node("Transpose", {"w"}, {"wt"}, {ints_attribute("perm", {1, 0})});
  m.node("MatMul", {"x", "wt"}, {"p"});
  m.node("Add", {"b", "p"}, {"y"});
  CHECK(ops_of(m) == Ops{"linear(x, w, b) f32[2, 5, 3]"});

  ModelWriter gemm = with_input({"B", "4"});
  gemm.weight("w", {3, 4});
  gemm.weight("b", {3});
  gemm.node("Gemm", {"x", "w", "b"}, {"y"}, {int_attribute("transB", 1)});
  CHECK(ops_of(gemm) == Ops{"linear(x, w, b) f32[2, 3]"});

  ModelWriter plain = with_input({"B", "4"});
  plain.weight("w", {4, 3});
  plain.weight("b", {3});
  plain.node("Gemm", {"x", "w", "b"}, {"y"}, {float_attribute("alpha", 2)});
  CHECK(ops_of(plain) == Ops{"matmul(x, w) f32[2, 3]", "mul(y.1, const) f32[2, 3]", "add(y.2, b) f32[2, 3]"});
}

// A product that is read elsewhere too stays beside the layer with a bias.
TEST_CASE("a linear layer whose product is read twice keeps both") {
  ModelWriter m = with_input({"B", "4"});
  m.weight("w", {4, 4});
  m.weight("b", {4});
  m.node("Transpose", {"w"}, {"wt"});
  m.node("MatMul", {"x", "wt"}, {"p"});
  m.node("Add", {"p", "b"}, {"q"});
  m.node("Mul", {"p", "q"}, {"y"});
  CHECK(ops_of(m) == Ops{"linear(x, w) f32[2, 4]", "linear(x, w, b) f32[2, 4]", "mul(p, q) f32[2, 4]"});
}

TEST_CASE("products with vectors drop the added axis") {
  ModelWriter m = with_input({"B", "4"});
  m.weight("v", {4});
  m.node("MatMul", {"x", "v"}, {"y"});
  CHECK(ops_of(m).back() == "reshape(y.2) f32[2]");
}

namespace {

// The exporter's scaled_dot_product_attention for opsets below 23.
ModelWriter attention(const std::string& mask_kind) {
  ModelWriter m(20);
  for (const char* name : {"q", "k", "v"}) m.input(name, ElemCode::kFloat, {"B", "2", "5", "4"});
  if (mask_kind == "run time") m.input("keep", ElemCode::kBool, {"B", "1", "5", "5"});
  m.output("y");
  m.number("c", 0.70710677f);
  m.number("one", 1);
  m.number("zero", 0);
  m.number("low", -3.4028235e38f);
  m.ints("square", {5, 5});
  m.ints("flat", {-1, 5, 4});
  m.ints("back", {2, 2, 4, 5});
  m.node("Reshape", {"k", "flat"}, {"k3"});
  m.node("Transpose", {"k3"}, {"k3t"}, {ints_attribute("perm", {0, 2, 1})});
  m.node("Reshape", {"k3t", "back"}, {"kt"});
  m.node("Mul", {"q", "c"}, {"qs"});
  m.node("Mul", {"kt", "c"}, {"ks"});
  m.node("MatMul", {"qs", "ks"}, {"scores"});
  std::string logits = "scores";
  if (mask_kind == "causal") {
    m.node("Expand", {"one", "square"}, {"ones"});
    m.node("Trilu", {"ones"}, {"triangle"}, {int_attribute("upper", 0)});
    m.node("Equal", {"triangle", "zero"}, {"off"});
    m.node("Where", {"off", "low", "zero"}, {"mask"});
  } else if (mask_kind == "run time") {
    m.node("Where", {"keep", "zero", "low"}, {"mask"});
  }
  if (mask_kind != "none") {
    m.node("Add", {"scores", "mask"}, {"masked"});
    logits = "masked";
  }
  m.node("Softmax", {logits}, {"p"}, {int_attribute("axis", -1)});
  if (mask_kind == "run time") {
    m.node("IsNaN", {"p"}, {"nan"});
    m.node("Where", {"nan", "zero", "p"}, {"safe"});
    m.node("MatMul", {"safe", "v"}, {"y"});
  } else {
    m.node("MatMul", {"p", "v"}, {"y"});
  }
  return m;
}

}  // namespace

TEST_CASE("attention is put together with its mask") {
  for (const char* kind : {"none", "causal", "run time"}) {
    const Imported g = import_model(attention(kind));
    INFO(kind);
    REQUIRE(g.ops.size() == 1);
    CHECK(g.ops[0] == (std::string(kind) == "run time" ? "scaled_dot_product_attention(q, k, v, keep) f32[2, 2, 5, 4]"
                                                       : "scaled_dot_product_attention(q, k, v) f32[2, 2, 5, 4]"));
    const auto attrs = attributes_of_last<ir::SdpaAttrs>(g);
    CHECK(attrs.scale == 0.5);
    CHECK(attrs.is_causal == (std::string(kind) == "causal"));
  }
}

// Opsets below 20 write gelu with erf; exporters differ in where the half stands.
TEST_CASE("gelu is put together") {
  for (const bool early : {false, true}) {
    ModelWriter m = with_input({"B", "4"}, 18);
    m.number("root", 1.41421354f);
    m.number("one", 1);
    m.number("half", 0.5f);
    m.node("Div", {"x", "root"}, {"d"});
    m.node("Erf", {"d"}, {"e"});
    m.node("Add", {"e", "one"}, {"g"});
    m.node("Mul", {"x", early ? "half" : "g"}, {"p"});
    m.node("Mul", {"p", early ? "g" : "half"}, {"y"});
    CHECK(ops_of(m) == Ops{"gelu(x) f32[2, 4]"});
  }
}

TEST_CASE("the Attention operator keeps scale and causality") {
  ModelWriter m(23);
  for (const char* name : {"q", "k", "v"}) m.input(name, ElemCode::kFloat, {"B", "5", "8"});
  m.output("y");
  m.node("Attention", {"q", "k", "v"}, {"y"},
         {int_attribute("is_causal", 1), int_attribute("q_num_heads", 2), int_attribute("kv_num_heads", 2)});
  const Imported g = import_model(m);
  REQUIRE(g.ops.size() == 9);
  CHECK(has(g.ops[6], "scaled_dot_product_attention"));
  CHECK(g.ops[8] == "reshape(y.8) f32[2, 5, 8]");
}

// Opsets below 21 write group normalisation with InstanceNormalization.
TEST_CASE("group normalisation is put together") {
  ModelWriter m = with_input({"B", "6", "4", "4"});
  m.weight("w", {6});
  m.weight("b", {6});
  m.ints("grouped", {0, 3, -1});
  m.ints("groups", {3});
  m.ints("axes", {1, 2});
  m.number("one", 1);
  m.number("zero", 0);
  m.node("Reshape", {"x", "grouped"}, {"xg"});
  m.node("Expand", {"one", "groups"}, {"ones"});
  m.node("Expand", {"zero", "groups"}, {"zeros"});
  m.node("InstanceNormalization", {"xg", "ones", "zeros"}, {"ng"}, {float_attribute("epsilon", 1e-5f)});
  m.node("Shape", {"x"}, {"shape"});
  m.node("Reshape", {"ng", "shape"}, {"n"});
  m.node("Unsqueeze", {"w", "axes"}, {"w3"});
  m.node("Unsqueeze", {"b", "axes"}, {"b3"});
  m.node("Mul", {"n", "w3"}, {"s"});
  m.node("Add", {"s", "b3"}, {"y"});
  const Imported g = import_model(m);
  CHECK(g.ops == Ops{"group_norm(x, w, b) f32[2, 6, 4, 4]"});
  const auto attrs = attributes_of_last<ir::GroupNormAttrs>(g);
  CHECK(attrs.groups == 3);
  CHECK(attrs.eps == 1e-5);
}

TEST_CASE("norms without scale are written without one") {
  ModelWriter m = with_input({"B", "4"});
  m.ints("shape", {4});
  m.number("one", 1);
  m.node("Expand", {"one", "shape"}, {"ones"});
  m.node("LayerNormalization", {"x", "ones"}, {"y"}, {int_attribute("axis", -1), float_attribute("epsilon", 1e-12f)});
  const Imported g = import_model(m);
  CHECK(g.ops == Ops{"layer_norm(x) f32[2, 4]"});
  CHECK(attributes_of_last<ir::LayerNormAttrs>(g).eps == 1e-12);
}

TEST_CASE("batch normalisation wants batch statistics") {
  const auto model = [](int64_t training) {
    ModelWriter m = with_input({"B", "3", "4", "4"});
    m.weight("w", {3});
    m.weight("b", {3});
    m.ints("three", {3});
    m.number("one", 1);
    m.node("Expand", {"one", "three"}, {"mean"});
    m.node("Expand", {"one", "three"}, {"var"});
    m.node("BatchNormalization", {"x", "w", "b", "mean", "var"}, {"y"},
           {int_attribute("training_mode", training), float_attribute("momentum", 0.9f)}, {}, "bn");
    return m;
  };
  const Imported g = import_model(model(1));
  REQUIRE(g.ops.size() == 1);
  CHECK(std::abs(attributes_of_last<ir::BatchNormAttrs>(g).momentum - 0.1) < 1e-12);
  REQUIRE(g.graph.buffers().size() == 2);
  CHECK(g.graph.buffers()[0].names[0] == "mean");
  const Refusal r = refusal(model(0));
  CHECK(r.code == "P0322");
  CHECK(has(r.text, "'bn'"));
}

// Shapes of run-time tensors are known, so everything made from them folds.
TEST_CASE("shape arithmetic folds") {
  ModelWriter m = with_input({"B", "6", "4"});
  m.node("Shape", {"x"}, {"s"}, {int_attribute("start", 0), int_attribute("end", 1)});
  m.ints("heads", {2, -1});
  m.ints("minus", {-1});
  m.node("Reshape", {"s", "minus"}, {"b"});
  m.node("Concat", {"b", "heads"}, {"to"}, {int_attribute("axis", 0)});
  m.node("Reshape", {"x", "to"}, {"y"}, {int_attribute("allowzero", 1)});
  CHECK(ops_of(m, 3) == Ops{"reshape(x) f32[3, 2, 12]"});
}

TEST_CASE("Reshape copies, infers and checks extents") {
  ModelWriter m = with_input({"B", "6", "4"});
  m.ints("to", {0, -1});
  m.node("Reshape", {"x", "to"}, {"y"});
  CHECK(ops_of(m) == Ops{"reshape(x) f32[2, 24]"});
  for (const std::vector<int64_t>& to :
       {std::vector<int64_t>{7, -1}, {-1, -1}, {int64_t{1} << 40, int64_t{1} << 40}, {-5}, {0, 0, 0, 0}}) {
    ModelWriter wrong = with_input({"B", "6", "4"});
    wrong.ints("to", to);
    wrong.node("Reshape", {"x", "to"}, {"y"});
    CHECK(refusal(wrong).code == "P0306");
  }
}

TEST_CASE("slices clamp their bounds and run backwards") {
  const auto sliced = [](int64_t start, int64_t end, int64_t step) {
    ModelWriter m(20);
    m.output("y");
    m.ints("start", {start});
    m.ints("end", {end});
    m.ints("axis", {-1});
    m.ints("step", {step});
    m.ints("x", {0, 1, 2, 3, 4});
    m.node("Slice", {"x", "start", "end", "axis", "step"}, {"y"});
    return folded_ints(m);
  };
  CHECK(sliced(1, INT64_MAX, 1) == std::vector<int64_t>{1, 2, 3, 4});
  CHECK(sliced(INT64_MIN, -1, 2) == std::vector<int64_t>{0, 2});
  CHECK(sliced(-2, 100, 1) == std::vector<int64_t>{3, 4});
  CHECK(sliced(4, 1, 1) == std::vector<int64_t>{});
  CHECK(sliced(-1, INT64_MIN, -1) == std::vector<int64_t>{4, 3, 2, 1, 0});
  CHECK(sliced(INT64_MAX, 0, -2) == std::vector<int64_t>{4, 2});
  CHECK(sliced(0, 5, INT64_MAX) == std::vector<int64_t>{0});
}

TEST_CASE("integer division rounds towards zero and Mod follows the divisor") {
  const auto computed = [](const char* op, int64_t a, int64_t b, std::vector<Attribute> attributes = {}) {
    ModelWriter m(20);
    m.output("y");
    m.ints("a", {a});
    m.ints("b", {b});
    m.node(op, {"a", "b"}, {"y"}, attributes);
    return folded_ints(m)[0];
  };
  CHECK(computed("Div", 7, 2) == 3);
  CHECK(computed("Div", -7, 2) == -3);
  CHECK(computed("Div", 7, -2) == -3);
  CHECK(computed("Div", -8, 2) == -4);
  CHECK(computed("Mod", -7, 3) == 2);
  CHECK(computed("Mod", -7, 3, {int_attribute("fmod", 1)}) == -1);
  ModelWriter zero(20);
  zero.output("y");
  zero.ints("a", {1});
  zero.ints("b", {0});
  zero.node("Div", {"a", "b"}, {"y"});
  CHECK(has(refusal(zero).text, "divides by zero"));
}

TEST_CASE("constants made by operators fold") {
  {
    ModelWriter m(20);
    m.output("y");
    for (const auto& [name, v] :
         std::vector<std::pair<const char*, int64_t>>{{"start", 9}, {"limit", 0}, {"delta", -3}})
      m.node("Constant", {}, {name}, {int_attribute("value_int", v)});
    m.node("Range", {"start", "limit", "delta"}, {"y"});
    CHECK(folded_ints(m) == std::vector<int64_t>{9, 6, 3});
  }
  {
    ModelWriter m(20);
    m.output("y");
    m.ints("shape", {2});
    m.ints("index", {1, -2, 0});
    m.ints("data", {10, 20});
    m.node("Gather", {"data", "index"}, {"y"});
    CHECK(folded_ints(m) == std::vector<int64_t>{20, 10, 10});
  }
  {
    ModelWriter m(20);
    m.output("y");
    m.ints("x", {1, 2, 3});
    m.node("Constant", {}, {"axis"}, {int_attribute("value_int", 0)});
    m.node("CumSum", {"x", "axis"}, {"y"}, {int_attribute("reverse", 1), int_attribute("exclusive", 1)});
    CHECK(folded_ints(m) == std::vector<int64_t>{5, 3, 0});
  }
  {
    ModelWriter m(20);
    m.output("y");
    m.ints("a", {1, 2});
    m.ints("repeats", {2});
    m.node("Tile", {"a", "repeats"}, {"y"});
    CHECK(folded_ints(m) == std::vector<int64_t>{1, 2, 1, 2});
  }
}

TEST_CASE("sequences with known positions are slices") {
  ModelWriter m = with_input({"B", "6"});
  m.node("Constant", {}, {"size"}, {int_attribute("value_int", 2)});
  m.node("Constant", {}, {"last"}, {int_attribute("value_int", -1)});
  m.node("SplitToSequence", {"x", "size"}, {"s"}, {int_attribute("axis", 1)});
  m.node("SequenceAt", {"s", "last"}, {"y"});
  const Imported g = import_model(m);
  CHECK(g.ops == Ops{"slice(x) f32[2, 2]"});
  CHECK(attributes_of_last<ir::SliceAttrs>(g).start == 4);
}

// A gather of every element in order, which exporters write for x[i[:, None], j], is no op.
TEST_CASE("gathers of whole tensors vanish and others become row gathers") {
  ModelWriter m = with_input({"B", "2"});
  m.initializer(tensor_bytes("all", ElemCode::kInt64, {2, 2, 2}, raw_of<int64_t>({0, 0, 0, 1, 1, 0, 1, 1})));
  m.node("GatherND", {"x", "all"}, {"g"});
  m.node("Neg", {"g"}, {"y"});
  CHECK(ops_of(m).back() == "neg(x) f32[2, 2]");

  ModelWriter experts(20);
  experts.input("ids", ElemCode::kInt64, {"B", "1"});
  experts.output("y");
  experts.weight("w", {4, 3, 5});
  experts.node("GatherND", {"w", "ids"}, {"y"});
  const Ops ops = ops_of(experts);
  CHECK(has(ops.at(ops.size() - 1), "index_select(w, "));
}

TEST_CASE("an embedding is a gather of a parameter's rows") {
  ModelWriter m(20);
  m.input("ids", ElemCode::kInt64, {"B", "7"});
  m.output("y");
  m.weight("table", {11, 4});
  m.node("Gather", {"table", "ids"}, {"y"}, {int_attribute("axis", 0)});
  CHECK(ops_of(m) == Ops{"embedding(table, ids) f32[2, 7, 4]"});
}

TEST_CASE("windows of one and two axes are imported with their padding") {
  ModelWriter m = with_input({"B", "3", "8", "8"});
  m.weight("w", {6, 3, 3, 3});
  m.node("Conv", {"x", "w"}, {"c"}, {ints_attribute("pads", {1, 1, 0, 0}), ints_attribute("strides", {2, 2})});
  m.node("MaxPool", {"c"}, {"y"}, {ints_attribute("kernel_shape", {2, 2}), ints_attribute("strides", {2, 2})});
  CHECK(ops_of(m) ==
        Ops{"pad(x) f32[2, 3, 9, 9]", "convolution(c.1, w) f32[2, 6, 4, 4]", "max_pool2d(c) f32[2, 6, 2, 2]"});

  ModelWriter line = with_input({"B", "3", "8"});
  line.node("AveragePool", {"x"}, {"y"}, {ints_attribute("kernel_shape", {2}), ints_attribute("strides", {2})});
  CHECK(ops_of(line).back() == "reshape(y.2) f32[2, 3, 4]");
}

TEST_CASE("losses keep reduction and ignored label") {
  ModelWriter m = with_input({"B", "9"});
  m.input("t", ElemCode::kInt64, {"B"});
  m.node("SoftmaxCrossEntropyLoss", {"x", "t"}, {"y"},
         {string_attribute("reduction", "sum"), int_attribute("ignore_index", -1)});
  const Imported g = import_model(m);
  CHECK(g.ops == Ops{"cross_entropy_loss(x, t) f32[]"});
  CHECK(attributes_of_last<ir::CrossEntropyLossAttrs>(g).ignore_index == -1);
  CHECK(attributes_of_last<ir::CrossEntropyLossAttrs>(g).reduction == "sum");

  ModelWriter mse = with_input({"B", "9"});
  mse.input("t", ElemCode::kFloat, {"B", "9"});
  mse.node("Sub", {"x", "t"}, {"d"});
  mse.node("Sub", {"x", "t"}, {"e"});
  mse.node("Mul", {"d", "e"}, {"s"});
  mse.node("ReduceMean", {"s"}, {"y"}, {int_attribute("keepdims", 0)});
  CHECK(ops_of(mse) == Ops{"mse_loss(x, t) f32[]"});
}

// Keys are made of the module path and the position among the module's dropouts.
TEST_CASE("dropout is keyed by module and ordinal") {
  ModelWriter m = with_input({"B", "4"});
  m.number("p", 0.25f);
  m.initializer(tensor_bytes("training", ElemCode::kBool, {}, std::string(1, '\1')));
  const std::vector<std::pair<std::string, std::string>> scope = {
      {"pkg.torch.onnx.name_scopes", "['', 'h.0.drop', 'dropout']"}};
  m.node("Dropout", {"x", "p"}, {"a"}, {}, scope);
  m.node("Dropout", {"a", "p", "training"}, {"y"}, {}, scope);
  const Imported g = import_model(m);
  REQUIRE(g.ops.size() == 1);
  const auto attrs = attributes_of_last<ir::DropoutAttrs>(g);
  CHECK(attrs.p == 0.25);
  CHECK(attrs.key == static_cast<int64_t>(XXH64("h.0.drop/1", 10, 0)));
  CHECK(g.graph.scope(g.graph.op(ir::OpId(0)).scope) == "h.0.drop");
}

TEST_CASE("einsum becomes products") {
  ModelWriter m = with_input({"10", "4"});
  m.weight("w", {3, 4, 5});
  m.weight("v", {3, 5, 4});
  m.input("g", ElemCode::kFloat, {"10", "3"});
  m.node("Einsum", {"x", "w"}, {"h"}, {string_attribute("equation", "tc,ech->eth")});
  m.node("Einsum", {"h", "v", "g"}, {"y"}, {string_attribute("equation", "eth,ehc,te->tc")});
  const Imported g = import_model(m);
  CHECK(has(g.ops.back(), "f32[10, 4]"));
  for (const char* wrong : {"ab,bc->ad", "a,b", "aa,bcd->ab", "tc,ech-eth", "tc"}) {
    ModelWriter bad = with_input({"10", "4"});
    bad.weight("w", {3, 4, 5});
    bad.node("Einsum", {"x", "w"}, {"y"}, {string_attribute("equation", wrong)});
    CHECK(refusal(bad).code == "P0306");
  }
  ModelWriter mixed = with_input({"2", "3"});
  mixed.input("i", ElemCode::kInt64, {"3", "4"});
  mixed.node("Einsum", {"x", "i"}, {"y"}, {string_attribute("equation", "ab,bc->ca")});
  CHECK(refusal(mixed).code == "P0306");
}

// The diagnostic names node, module and the Python line without its folder, and what is supported.
TEST_CASE("an unsupported operator is named with its place") {
  ModelWriter m = with_input({"B", "4"});
  m.node("LSTM", {"x"}, {"y"}, {},
         {{"pkg.torch.onnx.name_scopes", "['', 'net', 'net.rnn', 'lstm']"},
          {"pkg.torch.onnx.stack_trace",
           "File \"/models/mine/model.py\", line 12, in forward\n    x\n  File \"/opt/torch/nn/rnn.py\", line 900, in "
           "forward\n    y"}},
         "node_LSTM_1");
  const Refusal r = refusal(m);
  CHECK(r.code == "P0305");
  CHECK(has(r.text, "'LSTM'"));
  CHECK(has(r.text, "node 'node_LSTM_1'"));
  CHECK(has(r.text, "module 'net.rnn'"));
  CHECK(has(r.text, "model.py:12"));
  CHECK(!has(r.text, "/models/mine"));
  CHECK(has(r.text, "LayerNormalization"));

  ModelWriter other = with_input({"B", "4"});
  other.node("Relu", {"x"}, {"y"}, {}, {}, "/h.0/act/Relu", "com.example");
  CHECK(has(refusal(other).text, "'com.example.Relu'"));
  CHECK(has(refusal(other).text, "module 'h.0.act'"));
}

// What can never be compiled says why.
TEST_CASE("random numbers, data-dependent shapes and odd statistics have codes of their own") {
  {
    ModelWriter m = with_input({"B", "4"});
    m.node("RandomNormalLike", {"x"}, {"y"});
    CHECK(refusal(m).code == "P0321");
  }
  {
    ModelWriter m = with_input({"B", "4"});
    m.node("NonZero", {"x"}, {"y"});
    CHECK(refusal(m).code == "P0323");
  }
  {
    ModelWriter m = with_input({"B", "4"});
    m.input("to", ElemCode::kInt64, {"2"});
    m.node("Reshape", {"x", "to"}, {"y"});
    CHECK(refusal(m).code == "P0323");
  }
  {
    ModelWriter m = with_input({"B", "4"});
    m.weight("w", {4});
    m.node("BatchNormalization", {"x", "w", "w", "w", "w"}, {"y"}, {int_attribute("training_mode", 1)});
    CHECK(refusal(m).code == "P0324");
  }
  {
    ModelWriter m = with_input({"B", "4"});
    m.number("p", 1);
    m.node("Dropout", {"x", "p"}, {"y"});
    CHECK(refusal(m).code == "P0325");
  }
}

TEST_CASE("malformed graphs are refused, not followed") {
  {
    ModelWriter m = with_input({"B", "4"});
    m.node("Relu", {"missing"}, {"y"});
    CHECK(has(refusal(m).text, "'missing'"));
  }
  {
    ModelWriter m = with_input({"B", "4"});
    m.node("Relu", {"x"}, {"a"});
    CHECK(has(refusal(m).text, "'y' is made by no node"));
  }
  {
    ModelWriter m = with_input({"B", "4"});
    m.node("Relu", {"x"}, {"y"});
    m.node("Relu", {"x"}, {"y"});
    CHECK(has(refusal(m).text, "made twice"));
  }
  {
    ModelWriter m = with_input({"B", "4"});
    m.node("Softmax", {"x"}, {"y"}, {int_attribute("axis", 7)});
    CHECK(has(refusal(m).text, "axis 7"));
  }
  {
    ModelWriter m = with_input({"B", "4"});
    m.node("Softmax", {"x"}, {"y"}, {string_attribute("axis", "last")});
    CHECK(has(refusal(m).text, "wrong type"));
  }
  {
    ModelWriter m = with_input({"B", "4"}, 12);
    m.node("Relu", {"x"}, {"y"});
    CHECK(refusal(m).code == "P0308");
  }
  {
    ModelWriter m(20);
    m.output("y");
    m.ints("huge", {int64_t{1} << 30});
    m.node("ConstantOfShape", {"huge"}, {"y"});
    CHECK(has(refusal(m, FoldLimits{1 << 20, 1 << 24}).text, "too large"));
  }
}

TEST_CASE("every operator of the table is found") {
  CHECK(find_operator("Add") != nullptr);
  CHECK(find_operator("add") == nullptr);
  CHECK(has(supported_operators(), "Xor"));
}
