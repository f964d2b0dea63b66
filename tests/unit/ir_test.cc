// Graph building, type inference, names, and the text form.
#include <catch2/catch.hpp>

#include <functional>
#include <limits>
#include <memory>

#include "compiler/ir/attrs_text.h"
#include "compiler/ir/graph.h"

namespace piper::ir {
namespace {

std::string inferred(OpKind kind, const Attrs& attrs, const std::vector<TensorType>& operands) {
  std::vector<const TensorType*> pointers;
  for (const TensorType& t : operands) pointers.push_back(&t);
  Result<std::vector<TensorType>> results = infer_types(kind, attrs, pointers);
  if (!results.ok()) {
    CHECK(results.error().code == "P0401");
    return results.error().message;
  }
  std::string text;
  for (const TensorType& t : *results) text += (text.empty() ? "" : ", ") + to_string(t);
  return text;
}

TensorType f32(std::vector<int64_t> shape) { return {DType::kF32, std::move(shape)}; }
TensorType i64(std::vector<int64_t> shape) { return {DType::kI64, std::move(shape)}; }

}  // namespace

TEST_CASE("every operator has a name that leads back to it") {
  for (size_t i = 0;; ++i) {
    OpKind kind = static_cast<OpKind>(i);
    CHECK(op_from_name(op_name(kind)) == kind);
    CHECK(equal(default_attrs(kind), default_attrs(kind)));
    if (kind == OpKind::kCopy) break;
  }
  CHECK_FALSE(op_from_name("frobnicate"));
}

TEST_CASE("result types of each family") {
  CHECK(inferred(OpKind::kAdd, NoAttrs{}, {f32({2, 1}), f32({3})}) == "f32[2, 3]");
  CHECK(inferred(OpKind::kEq, NoAttrs{}, {i64({2}), i64({})}) == "bool[2]");
  CHECK(inferred(OpKind::kSlice, SliceAttrs{1, 1, 6, 2}, {f32({2, 6})}) == "f32[2, 3]");
  CHECK(inferred(OpKind::kSum, ReduceAttrs{{0, 2}, false}, {f32({2, 3, 4})}) == "f32[3]");
  CHECK(inferred(OpKind::kTopk, TopkAttrs{1, 2}, {f32({5, 4})}) == "f32[5, 2], i64[5, 2]");
  CHECK(inferred(OpKind::kMatmul, NoAttrs{}, {f32({4, 1, 2, 3}), f32({5, 3, 7})}) == "f32[4, 5, 2, 7]");
  CHECK(inferred(OpKind::kLinear, NoAttrs{}, {f32({4, 8}), f32({2, 8}), f32({2})}) == "f32[4, 2]");
  CHECK(inferred(OpKind::kConvolution, ConvolutionAttrs{{2, 2}, {1, 1}, {1, 1}, 1},
                 {f32({1, 3, 8, 8}), f32({6, 3, 3, 3})}) == "f32[1, 6, 4, 4]");
  CHECK(inferred(OpKind::kMaxPool2d, PoolAttrs{{2, 2}, {2, 2}, {0, 0}, {1, 1}, true}, {f32({1, 1, 5, 5})}) ==
        "f32[1, 1, 3, 3], i64[1, 1, 3, 3]");
  // A window that hangs over by less than a stride.
  CHECK(inferred(OpKind::kMaxPool2d, PoolAttrs{{3, 3}, {2, 2}, {0, 0}, {1, 1}, true}, {f32({1, 1, 2, 2})}) ==
        "f32[1, 1, 1, 1], i64[1, 1, 1, 1]");
  CHECK(inferred(OpKind::kLayerNorm, LayerNormAttrs{1, 1e-5}, {f32({2, 3, 4}), f32({4}), f32({4})}) ==
        "f32[2, 3, 4], f32[6], f32[6]");
  CHECK(inferred(OpKind::kSdpa, SdpaAttrs{}, {f32({2, 4, 3, 8}), f32({2, 2, 5, 8}), f32({2, 2, 5, 8})}) ==
        "f32[2, 4, 3, 8], f32[2, 4, 3]");
  CHECK(inferred(OpKind::kCrossEntropySum, CrossEntropyAttrs{}, {f32({2, 7, 3}), i64({2, 3})}) == "f32[], f32[6]");
  CHECK(inferred(OpKind::kPad, PadAttrs{{0, -1}, {2, 0}, 0}, {f32({3, 4})}) == "f32[5, 3]");
}

TEST_CASE("operand types that do not fit are refused by name") {
  CHECK(inferred(OpKind::kAdd, NoAttrs{}, {f32({2}), i64({2})}) == "add(f32[2], i64[2]): dtypes differ");
  CHECK(inferred(OpKind::kReshape, ReshapeAttrs{{5}}, {f32({2, 3})}) ==
        "reshape(f32[2, 3]; shape=[5]): the number of elements differs");
  CHECK(inferred(OpKind::kExp, NoAttrs{}, {i64({2})}) == "exp(i64[2]): operand 0 must be floating point");
  CHECK(inferred(OpKind::kRelu, NoAttrs{}, {}) == "relu(): takes 1 operands");
  CHECK(inferred(OpKind::kSoftmax, NoAttrs{}, {f32({2})}) == "softmax(f32[2]): attributes of another operator");
  CHECK(inferred(OpKind::kSdpa, SdpaAttrs{}, {f32({2, 4, 3, 8}), f32({2, 4, 5, 8}), f32({2, 4, 5, 6})})
            .ends_with("v wants the width of q and k: the kernels compute with one"));
  CHECK(inferred(OpKind::kEmbedding, EmbeddingAttrs{}, {f32({5, 2}), f32({3})}) ==
        "embedding(f32[5, 2], f32[3]; padding_idx=-1, scale_grad_by_freq=false): operand 1 must be i64");
  for (const bool ceil_mode : {false, true})
    CHECK(inferred(OpKind::kMaxPool2d, PoolAttrs{{4, 4}, {2, 2}, {0, 0}, {1, 1}, ceil_mode}, {f32({1, 1, 3, 3})})
              .ends_with("the kernel is larger than the padded input") != ceil_mode);
  CHECK(inferred(OpKind::kMaxPool2d, PoolAttrs{{5, 5}, {2, 2}, {0, 0}, {1, 1}, true}, {f32({1, 1, 2, 2})})
            .ends_with("the kernel is larger than the padded input"));
}

TEST_CASE("the builder names, shortens and keeps the first misfit") {
  Graph graph;
  ValueId x = graph.add_input("x", f32({2, 3}), true);
  GraphBuilder b(graph, graph.intern_scope("net"), graph.provenance().unknown("test"));
  CHECK(b.reshape(x, {2, 3}) == x);
  CHECK(b.cast(x, DType::kF32) == x);
  CHECK(b.slice(x, -1, 0, 3) == x);
  ValueId first = b.add1(OpKind::kRelu, {x});
  ValueId second = b.add1(OpKind::kRelu, {x});
  CHECK(graph.value(first).name == "relu");
  CHECK(graph.value(second).name == "relu_2");
  CHECK(to_string(b.type(b.transpose(x, 0, -1))) == "f32[3, 2]");
  CHECK(to_string(b.type(b.sum_to_shape(b.expand(x, {4, 2, 3}), {2, 1}))) == "f32[2, 1]");
  CHECK(b.status().ok());
  ValueId wrong = b.add1(OpKind::kMatmul, {x, x}, NoAttrs{});
  CHECK(to_string(b.type(wrong)) == "f32[]");
  b.squeeze(wrong, 3);
  REQUIRE_FALSE(b.status().ok());
  CHECK(b.status().error().message.find("inner extents differ") != std::string::npos);
}

TEST_CASE("uses name an op once, and removed ops leave their values") {
  Graph graph;
  ValueId x = graph.add_input("x", f32({2}), true);
  GraphBuilder b(graph, ScopeId(), ProvId());
  ValueId square = b.add1(OpKind::kMul, {x, x});
  ValueId dead = b.add1(OpKind::kExp, {x});
  ValueId last = b.add1(OpKind::kNeg, {square});
  CHECK(graph.uses()[x.index].size() == 2);
  graph.outputs.push_back({"y", last});
  graph.remove_ops({false, true, false});
  CHECK(graph.num_ops() == 2);
  CHECK_FALSE(graph.value(dead).producer.valid());
  CHECK(graph.value(last).producer == OpId(1));
  CHECK(verify(graph).ok());
  CHECK(print(graph).find("exp") == std::string::npos);
}

// Each rule of verify_graph.h that the text form cannot break: its reader refuses such a graph before.
TEST_CASE("a graph that breaks a rule is refused by the rule's number") {
  Graph graph;
  const ValueId x = graph.add_input("x", f32({2}), true);
  WeightSource source;
  source.data = std::make_shared<const std::vector<std::byte>>(8);
  const ValueId w = graph.add_parameter({"w"}, f32({2}), true, std::move(source));
  GraphBuilder b(graph, ScopeId(), ProvId());
  const ValueId y = b.add1(OpKind::kMul, {x, w});
  graph.outputs.push_back({"y", y});
  REQUIRE(verify(graph).ok());
  const auto broken = [&](const std::function<void(Graph&)>& edit) {
    Graph edited = graph;
    edit(edited);
    const Status status = verify(edited);
    REQUIRE_FALSE(status.ok());
    return std::string(status.error().code);
  };
  CHECK(broken([&](Graph& g) { g.op(OpId(0)).operands[0] = ValueId(99); }) == "P0403");
  CHECK(broken([&](Graph& g) { g.outputs[0].value = ValueId(99); }) == "P0403");
  CHECK(broken([&](Graph& g) { g.value(y).name = "x"; }) == "P0406");
  CHECK(broken([&](Graph& g) { g.value(y).name.clear(); }) == "P0406");
  CHECK(broken([&](Graph& g) { g.value(y).result_index = 1; }) == "P0407");
  CHECK(broken([&](Graph& g) { g.value(w).payload = 7; }) == "P0407");
  CHECK(broken([&](Graph& g) { g.value(w).type = f32({3}); }) == "P0408");
  CHECK(broken([&](Graph& g) { g.value(x).type = f32({-2}); }) == "P0412");
}

TEST_CASE("ops are sorted behind their producers, otherwise in order") {
  Graph graph;
  ValueId x = graph.add_input("x", f32({2}), true);
  GraphBuilder b(graph, ScopeId(), ProvId());
  ValueId a = b.add1(OpKind::kExp, {x});
  ValueId c = b.add1(OpKind::kNeg, {x});
  ValueId d = b.add1(OpKind::kAbs, {x});
  graph.op(graph.value(a).producer).operands[0] = d;  // exp now reads the last op
  CHECK(verify(graph).error().code == "P0404");
  graph.sort_ops();
  CHECK(graph.value(c).producer == OpId(0));
  CHECK(graph.value(d).producer == OpId(1));
  CHECK(graph.value(a).producer == OpId(2));
  CHECK(verify(graph).ok());
}

TEST_CASE("printing, parsing and printing again gives the same bytes") {
  Graph graph;
  graph.add_input("x", f32({2}), true);
  ValueId x = graph.add_input("x", f32({2}), false);  // the value is renamed, the input keeps its name
  GraphBuilder b(graph, graph.intern_scope("a \"quoted\" module"), graph.provenance().model({"node", "m", "f.py:1"}));
  std::vector<int64_t> many(40, 7);
  b.constant_i64({40}, many);  // as hexadecimal bytes
  ValueId half = b.scalar(0.1, DType::kF32);
  b.scalar(1.5, DType::kBF16);
  b.set_phase(Phase::kCount);
  b.set_chunk(ChunkId(2));
  graph.loss = b.sum(b.add1(OpKind::kMul, {x, half}), {0}, false);
  b.add1(OpKind::kClamp, {x}, ClampAttrs{-std::numeric_limits<double>::infinity(), 1e-30});
  b.add1(OpKind::kDropout, {x, graph.seed_step(), graph.sample_offset()}, DropoutAttrs{0.1, INT64_MIN, 1, 1, 1});
  REQUIRE(b.status().ok());
  std::string text = print(graph);
  Result<Graph> again = parse_graph(text, "t.pir");
  REQUIRE(again.ok());
  CHECK(print(*again) == text);
  CHECK(verify(*again).ok());
}

TEST_CASE("damaged text is refused with its place") {
  for (const char* text :
       {"", "graph", "graph {", "graph { %x = }", "graph { %x = input \"x\" : f32[-1] }", "graph { \"", "graph { % }",
        "graph {} x", "graph { %x = input \"x\" : f32[99999999999, 99999999999] }", "graph { loss none } }"}) {
    Result<Graph> graph = parse_graph(text, "t.pir");
    CAPTURE(text);
    REQUIRE_FALSE(graph.ok());
    CHECK(graph.error().code == "P0402");
    CHECK(graph.error().message.rfind("t.pir:1:", 0) == 0);
  }
}

TEST_CASE("provenance is interned and described as a chain") {
  Provenance table;
  ProvId model = table.model({"ln", "h.0.ln1", "gpt.py:12"});
  CHECK(table.model({"ln", "h.0.ln1", "gpt.py:12"}) == model);
  ProvId derived = table.derived("autodiff", {model});
  CHECK(table.describe(derived) == "node 'ln' (module h.0.ln1) at gpt.py:12, made by autodiff");
  CHECK(table.size() == 2);
  const ProvId line = table.directive({"shard", "s.yaml:3:5"});
  const ProvId sum = table.derived("all.sum", {line}, "shares meet 'add'");
  CHECK(table.describe(sum) == "shard at s.yaml:3:5: shares meet 'add'");
  CHECK(table.derived("all.sum", {line}, "shares meet 'mul'") != sum);
  CHECK(table.derived("all.sum", {line}, "shares meet 'add'") == sum);
}

}  // namespace piper::ir
