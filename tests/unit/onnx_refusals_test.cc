// Models that the importer refuses: each with its code, its place and what would be valid.
#include <catch2/catch.hpp>

#include "compiler/frontend/onnx/ops.h"
#include "tests/unit/onnx_imported.h"

using namespace piper;
using namespace piper::test;

// The diagnostic names node, module and the Python line without its folder, and what is supported.
TEST_CASE("an unsupported operator is named with its place") {
  ModelWriter m = with_input({"B", "4"});
  m.node("Det", {"x"}, {"y"}, {},
         {{"pkg.torch.onnx.name_scopes", "['', 'net', 'net.rnn', 'det']"},
          {"pkg.torch.onnx.stack_trace",
           "File \"/models/mine/model.py\", line 12, in forward\n    x\n  File \"/opt/torch/nn/rnn.py\", line 900, in "
           "forward\n    y"}},
         "node_Det_1");
  const Refusal r = refusal(m);
  CHECK(r.code == "P0305");
  CHECK(has(r.text, "'Det'"));
  CHECK(has(r.text, "node 'node_Det_1'"));
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

// They are those before the step, and no gradient goes through them.
TEST_CASE("running statistics are kept, and not computed with") {
  const auto model = [](bool computes) {
    ModelWriter m = with_input({"B", "3", "4", "4"});
    for (const char* name : {"w", "b"}) m.weight(name, {3});
    m.ints("three", {3});
    m.number("one", 1);
    for (const char* name : {"mean", "var"}) m.node("Expand", {"one", "three"}, {name});
    m.node("BatchNormalization", {"x", "w", "b", "mean", "var"}, {"first", "mean.1", "var.1"},
           {int_attribute("training_mode", 1)}, {}, "bn");
    m.node("BatchNormalization", {"first", "w", "b", "mean.1", "var.1"}, {"second", "mean.2", "var.2"},
           {int_attribute("training_mode", 1)}, {}, "again");
    m.node("ReduceMean", {computes ? "var.2" : "second"}, {"y"});
    m.output("mean.2");
    return m;
  };
  CHECK(import_model(model(false)).graph.buffers().size() == 2);
  CHECK(has(refusal(model(true)).text, "its result 2, a running statistic, is computed with"));
}

// What an importer does not know says another computation: how far a query sees, how steep a curve is.
TEST_CASE("an attribute that is not known is refused by name") {
  ModelWriter m(23);
  for (const char* name : {"q", "k", "v"}) m.input(name, ElemCode::kFloat, {"B", "5", "8"});
  m.output("y");
  m.node("Attention", {"q", "k", "v"}, {"y"},
         {int_attribute("dilated_window_size", 2), int_attribute("q_num_heads", 2), int_attribute("kv_num_heads", 2)});
  CHECK(has(refusal(m).text, "its attribute 'dilated_window_size' is not supported"));
  for (const auto& [op_type, attribute] : {std::pair{"Tanh", "steepness"}, {"Relu", "ceiling"}, {"Add", "axis"}}) {
    INFO(op_type);
    ModelWriter other = with_input({"B", "4"});
    std::vector<std::string> inputs(op_type == std::string("Add") ? 2 : 1, "x");
    other.node(op_type, inputs, {"y"}, {int_attribute(attribute, 2)});
    CHECK(has(refusal(other).text, "its attribute '" + std::string(attribute) + "' is not supported"));
  }
  // Some change nothing that a step computes.
  ModelWriter cast = with_input({"B", "4"});
  cast.node("Cast", {"x"}, {"y"}, {int_attribute("to", 1), int_attribute("saturate", 0)});
  CHECK(import_model(cast).graph.outputs.size() == 1);
}

TEST_CASE("a convolution's kernel_shape is its weight's") {
  const auto model = [](int64_t extent) {
    ModelWriter m = with_input({"B", "3", "6"});
    m.weight("w", {2, 3, 2});
    m.node("Conv", {"x", "w"}, {"y"}, {ints_attribute("kernel_shape", {extent})});
    return m;
  };
  CHECK(import_model(model(2)).graph.outputs.size() == 1);
  CHECK(has(refusal(model(3)).text, "its kernel_shape is not that of its weight"));
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

// Every operator with operands of too few axes, too many and of another type: a graph or a refusal, never memory past
// the end of a shape.
TEST_CASE("operands that fit no operator are imported or refused") {
  const std::string names = frontend::onnx::supported_operators();
  int refused = 0, imported = 0;
  for (size_t at = 0, end; at < names.size(); at = end + 2) {
    end = std::min(names.find(", ", at), names.size());
    const std::string op = names.substr(at, end - at);
    for (size_t operands = 1; operands <= 4; ++operands)
      for (size_t axes = 0; axes <= 5; ++axes)
        for (const bool last_are_integers : {false, true}) {
          ModelWriter m(25);
          std::vector<std::string> inputs;
          for (size_t i = 0; i < operands; ++i) {
            inputs.push_back("x" + std::to_string(i));
            const ElemCode elem = last_are_integers && i > 0 ? ElemCode::kInt64 : ElemCode::kFloat;
            m.input(inputs.back(), elem, std::vector<std::string>(i == 0 ? 3 : axes, "B"));
          }
          m.node(op, inputs, {"y", "z"});
          m.output("y");
          Result<OnnxFile> file = read_onnx_bytes(m.bytes());
          REQUIRE(file.ok());
          std::optional<frontend::BoundModel> model = bind_plainly(*file, 2);
          REQUIRE(model);
          diag::Diagnostics diags;
          const bool ok = import_nodes(*model, diags).ok();
          INFO(op << " with " << operands << " operands, the later ones of " << axes << " axes");
          REQUIRE(ok != diags.failed());
          ++(ok ? imported : refused);
        }
  }
  CHECK(imported > 500);
  CHECK(refused > 500);
}
