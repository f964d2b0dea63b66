// The operator-by-operator importer on small graphs: which layers the operators of a model become.
#include <catch2/catch.hpp>

#include <xxhash.h>

#include <algorithm>

#include "compiler/frontend/onnx/ops.h"
#include "tests/unit/onnx_imported.h"

using namespace piper;
using namespace piper::test;

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
  CHECK(ops_of(m).back() == "reshape(y.1.2) f32[2]");
}

namespace {

// The exporter's scaled_dot_product_attention for opsets below 23.
ModelWriter attention(const std::string& mask_kind, const std::string& width_of_values = "4") {
  ModelWriter m(20);
  for (const char* name : {"q", "k"}) m.input(name, ElemCode::kFloat, {"B", "2", "5", "4"});
  m.input("v", ElemCode::kFloat, {"B", "2", "5", width_of_values});
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

// The operator has one width: narrower values are widened by zeros, what is written in parts stays so.
TEST_CASE("attention whose values are narrower") {
  const Ops ops = ops_of(attention("causal", "3"));
  REQUIRE(ops.size() > 2);
  CHECK(ops.back() == "matmul(p, v) f32[2, 2, 5, 3]");

  ModelWriter m(23);
  for (const char* name : {"q", "k"}) m.input(name, ElemCode::kFloat, {"B", "2", "5", "4"});
  m.input("v", ElemCode::kFloat, {"B", "2", "5", "3"});
  m.output("y");
  m.node("Attention", {"q", "k", "v"}, {"y"});
  const Ops fused = ops_of(m);
  REQUIRE(fused.size() > 2);
  CHECK(has(fused[fused.size() - 2], "scaled_dot_product_attention(q, k, "));
  CHECK(has(fused.back(), "slice("));
}

// The derivative of a softmax of nothing but -inf is no number.
TEST_CASE("rows that attend to nothing have a softmax of their own") {
  const Ops ops = ops_of(attention("run time", "3"));
  REQUIRE(ops.size() > 4);
  const Ops last(ops.end() - 4, ops.end());
  CHECK(last == Ops{"where(nan, const, masked) f32[2, 2, 5, 5]", "softmax(safe.1) f32[2, 2, 5, 5]",
                    "where(nan, const, safe.2) f32[2, 2, 5, 5]", "matmul(safe, v) f32[2, 2, 5, 3]"});

  const std::vector<std::vector<std::string>> of_rows = {{"B", "5", "1"}, {"5", "1"}, {"1"}, {}},
                                              others = {{"B", "5", "4"}, {"4"}};
  for (size_t i = 0; i < of_rows.size() + others.size(); ++i) {
    ModelWriter m = with_input({"B", "5", "4"}, 18);
    m.input("closed", ElemCode::kBool, i < of_rows.size() ? of_rows[i] : others[i - of_rows.size()]);
    m.number("zero", 0);
    m.node("Softmax", {"x"}, {"p"}, {int_attribute("axis", -1)});
    m.node("Where", {"closed", "zero", "p"}, {"y"});
    CHECK(ops_of(m).size() == (i < of_rows.size() ? 3 : 2));
  }
}

// Opsets below 20 write gelu with erf; exporters differ in where the half is.
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

TEST_CASE("a mask without axes is of all keys") {
  for (const bool causal : {false, true}) {
    ModelWriter m(23);
    for (const char* x : {"q", "k", "v"}) m.input(x, ElemCode::kFloat, {"B", "2", "3", "4"});
    m.input("m", ElemCode::kBool, {});
    m.output("y");
    m.node("Attention", {"q", "k", "v", "m"}, {"y"}, {int_attribute("is_causal", causal ? 1 : 0)});
    const Imported g = import_model(m);
    CHECK(g.ops.back().find("scaled_dot_product_attention") == 0);
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
  CHECK(g.ops[8] == "reshape(y.9) f32[2, 5, 8]");
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
  CHECK(ops_of(line).back() == "reshape(y.1.2) f32[2, 3, 4]");
}

// Channels of a block become pixels: outermost among the channels in mode DCR, innermost in CRD.
TEST_CASE("depth and space are exchanged by blocks") {
  const auto rearranged = [](const std::string& op, const std::vector<std::string>& shape, const std::string& mode) {
    ModelWriter m = with_input(shape);
    std::vector<Attribute> attributes = {int_attribute("blocksize", 2)};
    if (!mode.empty()) attributes.push_back(string_attribute("mode", mode));
    m.node(op, {"x"}, {"y"}, attributes);
    return ops_of(m);
  };
  CHECK(rearranged("DepthToSpace", {"B", "8", "3", "5"}, "") ==
        Ops{"reshape(x) f32[2, 2, 2, 2, 3, 5]", "permute(y.1) f32[2, 2, 3, 2, 5, 2]", "reshape(y.2) f32[2, 2, 6, 10]"});
  CHECK(rearranged("DepthToSpace", {"B", "12", "3", "5"}, "CRD") ==
        Ops{"reshape(x) f32[2, 3, 2, 2, 3, 5]", "permute(y.1) f32[2, 3, 3, 2, 5, 2]", "reshape(y.2) f32[2, 3, 6, 10]"});
  CHECK(rearranged("SpaceToDepth", {"B", "3", "4", "6"}, "") ==
        Ops{"reshape(x) f32[2, 3, 2, 2, 3, 2]", "permute(y.1) f32[2, 2, 2, 3, 2, 3]", "reshape(y.2) f32[2, 12, 2, 3]"});
}

// The square of this block is 0 in 64 bits.
TEST_CASE("a block whose square overflows is refused") {
  ModelWriter m = with_input({"B", "1", "1", "1"});
  m.ints("wide", {2, int64_t{1} << 32, 1, 1});
  m.node("Expand", {"x", "wide"}, {"z"});
  m.node("DepthToSpace", {"z"}, {"y"}, {int_attribute("blocksize", int64_t{1} << 32)});
  CHECK(has(refusal(m).text, "multiple of the block's square"));
}

// Element-wise operators by the column ONNX of elementwise.def, and those that are more than an operator.
TEST_CASE("element-wise operators of floating-point numbers") {
  const auto imported = [](const std::string& op, std::vector<Attribute> attributes = {}, bool two = false) {
    ModelWriter m = with_input({"B", "3"});
    if (two) m.input("e", ElemCode::kFloat, {"B", "3"});
    m.node(op, two ? std::vector<std::string>{"x", "e"} : std::vector<std::string>{"x"}, {"y"}, attributes);
    return ops_of(m);
  };
  CHECK(imported("Asinh") == Ops{"asinh(x) f32[2, 3]"});
  CHECK(imported("Round") == Ops{"round(x) f32[2, 3]"});
  CHECK(imported("Pow", {}, true) == Ops{"pow(x, e) f32[2, 3]"});
  CHECK(imported("Mod", {int_attribute("fmod", 1)}, true) == Ops{"fmod(x, e) f32[2, 3]"});
  CHECK(imported("IsInf") == Ops{"abs(x) f32[2, 3]", "eq(y.1, const) bool[2, 3]"});
  CHECK(imported("IsInf", {int_attribute("detect_positive", 0)}) == Ops{"eq(x, const) bool[2, 3]"});
  CHECK(imported("ThresholdedRelu") == Ops{"gt(x, const) bool[2, 3]", "where(y.1, x, const) f32[2, 3]"});
  CHECK(imported("Shrink", {float_attribute("bias", 1.5f)}) ==
        Ops{"gt(x, const) bool[2, 3]", "lt(x, const) bool[2, 3]", "sub(x, const) f32[2, 3]",
            "where(y.1, y.3, const) f32[2, 3]", "add(x, const) f32[2, 3]", "where(y.2, y.5, y.4) f32[2, 3]"});
  const Ops product =
      imported("ReduceProd", {int_attribute("keepdims", 0)});  // 2 rows by halves, 3 columns and the rest
  CHECK(std::count_if(product.begin(), product.end(), [](const std::string& op) { return has(op, "mul("); }) == 3);
  CHECK(has(product.back(), ") f32[]"));
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
// An attribute is a double, which rounds the greatest int64 to what is none.
TEST_CASE("a bound that a double does not hold stays a tensor") {
  const auto clipped = [](int64_t bound) {
    ModelWriter m(20);
    m.input("x", ElemCode::kInt64, {"B", "4"});
    m.output("y");
    m.ints("bound", {bound});
    m.node("Clip", {"x", "", "bound"}, {"y"});
    return ops_of(m);
  };
  CHECK(clipped(7) == Ops{"clamp(x) i64[2, 4]"});
  CHECK(clipped(INT64_MAX) == Ops{"minimum(x, const) i64[2, 4]"});
}

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

// A node that is an ATen call is what the call's function makes, with the node's name; of what is known, a constant.
TEST_CASE("a node is read by the function of its ATen call") {
  ModelWriter m = with_input({"B", "4"});
  m.ints("three", {3});
  m.ints("zero", {0});
  m.node("Elu", {"x"}, {"e"}, {float_attribute("alpha", 2)});
  m.node("Shape", {"e"}, {"shape"});                                          // 2, 4
  m.node("Div", {"shape", "three"}, {"third"});                               // 0, 1
  m.node("Mod", {"shape", "three"}, {"rest"});                                // 2, 1
  m.node("Add", {"third", "rest"}, {"to"});                                   // 2, 2
  m.node("CumSum", {"to", "zero"}, {"sums"}, {int_attribute("reverse", 1)});  // 4, 2
  m.node("Tile", {"e", "sums"}, {"y"});
  const Imported g = import_model(m);
  CHECK(g.ops.back().ends_with("f32[8, 8]"));
  CHECK(std::count_if(g.ops.begin(), g.ops.end(), [](const std::string& op) { return has(op, "exp("); }) == 1);
  CHECK(g.graph.value(g.graph.outputs[0].value).name == "y");
}

TEST_CASE("forms that an ATen call does not have are refused by name") {
  const auto refused = [](const std::string& op, std::vector<Attribute> attributes,
                          std::vector<std::string> inputs = {"x"}) {
    ModelWriter m = with_input({"B", "3", "6", "6"});
    m.weight("w", {3, 2, 3, 3});
    m.ints("sizes", {2, 3, 3, 3});
    m.ints("image", {4, 4});
    m.node(op, inputs, {"y"}, attributes);
    return refusal(m).text;
  };
  CHECK(has(refused("Resize", {string_attribute("mode", "lanczos")}, {"x", "", "", "sizes"}),
            "one of its modes does not exist"));
  CHECK(
      has(refused("Resize", {int_attribute("antialias", 1)}, {"x", "", "", "sizes"}), "antialias or exclude_outside"));
  CHECK(has(refused("Resize", {}, {"x", "", "x"}), "scales are not known"));
  CHECK(has(refused("GridSample", {string_attribute("mode", "lanczos")}, {"x", "w"}), "its mode 'lanczos'"));
  CHECK(has(refused("ConvTranspose", {ints_attribute("output_shape", {1, 2, 3})}, {"x", "w"}),
            "output_shape does not fit"));
  CHECK(has(refused("Col2Im", {ints_attribute("pads", {0, 1, 1, 1})}, {"x", "image", "image"}),
            "not the same at both ends"));
  CHECK(has(refused("MaxUnpool", {ints_attribute("kernel_shape", {2, 2})}, {"x", "sizes"}), "places do not fit"));
  CHECK(has(refused("LpNormalization", {int_attribute("p", 3)}), "its order 3"));
  CHECK(has(refused("ScatterElements", {string_attribute("reduction", "mean")}, {"x", "x", "x"}), "reduction 'mean'"));
  CHECK(has(refused("LSTM", {}, {"x", "w", "w"}), "its weights do not fit"));
  CHECK(has(refused("DFT", {int_attribute("axis", 3)}), "it wants real numbers"));
  CHECK(has(refused("Attention", {}, {"x", "x", "x", "", "x"}), "a cache of only keys"));
}

TEST_CASE("every operator of the table is found") {
  CHECK(find_operator("Add") != nullptr);
  CHECK(find_operator("add") == nullptr);
  CHECK(has(supported_operators(), "Xor"));
}
