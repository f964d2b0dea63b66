// What the importer knows at compile time: shapes, positions and constants that operators compute fold away.
#include <catch2/catch.hpp>

#include <cstring>

#include "tests/unit/onnx_imported.h"

using namespace piper;
using namespace piper::test;

namespace {

// The int64 elements of the model's output, which must fold.
std::vector<int64_t> folded_ints(const ModelWriter& m) {
  const Imported g = import_model(m);
  REQUIRE(g.ops.empty());
  const std::optional<frontend::ConstantTensor> t = frontend::constant_of(g.graph, g.graph.outputs[0].value);
  REQUIRE(t);
  std::vector<int64_t> out(t->data()->size() / 8);
  std::memcpy(out.data(), t->data()->data(), t->data()->size());
  return out;
}

}  // namespace

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

TEST_CASE("padding repeats the edge, reflects or wraps around, also further than there are elements") {
  const auto padded = [](const char* mode, std::vector<int64_t> pads, std::vector<int64_t> x) {
    ModelWriter m(20);
    m.output("y");
    m.ints("pads", std::move(pads));
    m.ints("x", std::move(x));
    m.node("Pad", {"x", "pads"}, {"y"}, {string_attribute("mode", mode)});
    return folded_ints(m);
  };
  CHECK(padded("edge", {2, 1}, {5, 6, 7}) == std::vector<int64_t>{5, 5, 5, 6, 7, 7});
  CHECK(padded("reflect", {2, 3}, {5, 6, 7}) == std::vector<int64_t>{7, 6, 5, 6, 7, 6, 5, 6});
  CHECK(padded("reflect", {1, 1}, {5}) == std::vector<int64_t>{5, 5, 5});
  CHECK(padded("wrap", {4, 1}, {5, 6, 7}) == std::vector<int64_t>{7, 5, 6, 7, 5, 6, 7, 5});
  CHECK(padded("wrap", {-1, 1}, {5, 6, 7}) == std::vector<int64_t>{6, 7, 5});
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
