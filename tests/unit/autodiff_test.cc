// Unit tests of compiler/autodiff on small graphs: which ops the backward has, in which chunk and
// order. Their numbers are tested in tests/numeric.
#include "compiler/autodiff/autodiff.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace {

using namespace piper;
using ir::GraphBuilder;
using ir::OpKind;
using ir::TensorType;
using ir::ValueId;

struct Model {
  ir::Graph graph;
  GraphBuilder b{graph, graph.intern_scope("net"), graph.provenance().model({"node", "net", ""})};
  diag::Diagnostics diags;

  ValueId parameter(const std::string& name, std::vector<int64_t> shape, bool trainable = true) {
    return graph.add_parameter({name}, {DType::kF32, std::move(shape)}, trainable, {});
  }
  ValueId input(const std::string& name, std::vector<int64_t> shape, DType dtype = DType::kF32) {
    return graph.add_input(name, {dtype, std::move(shape)}, true);
  }
  ValueId total(ValueId x) {
    std::vector<int64_t> dims;
    for (size_t i = 0; i < b.type(x).shape.size(); ++i) dims.push_back(static_cast<int64_t>(i));
    return b.sum(x, dims, false);
  }
  std::string differentiated(ValueId loss) {
    REQUIRE(b.status().ok());
    graph.loss = loss;
    const size_t forward = graph.num_ops();
    const auto map = autodiff::differentiate(graph, diags);
    INFO(diags.render_text(false));
    REQUIRE(map.ok());
    return listing(forward);
  }
  // One line for each backward op: "mul(a, b) @chunk"; accumulate_grad names its parameter.
  std::string listing(size_t from) const {
    std::string text;
    for (size_t i = from; i < graph.num_ops(); ++i) {
      const ir::Op& op = graph.op(ir::OpId(i));
      CHECK(op.phase == ir::Phase::kBackward);
      text += std::string(op_name(op.kind)) + "(";
      for (size_t k = 0; k < op.operands.size(); ++k)
        text += (k ? ", " : "") + (op.operands[k].valid() ? graph.value(op.operands[k]).name : std::string("-"));
      text += ")";
      if (op.kind == OpKind::kAccumulateGrad)
        text += " " + graph.value(std::get<ir::AccumulateGradAttrs>(op.attrs).parameter).name;
      if (op.chunk.valid()) text += " @" + std::to_string(op.chunk.index);
      text += "\n";
    }
    return text;
  }
};

// A linear layer under a sum: the seed is a constant, expanded and not multiplied, and input and
// weight gradients are ops of their own.
TEST_CASE("the backward of linear layers") {
  Model m;
  const ValueId x = m.input("x", {4, 3}), w1 = m.parameter("w1", {5, 3}), b1 = m.parameter("b1", {5}),
                w2 = m.parameter("w2", {2, 5});
  const ValueId h =
      m.b.add1(OpKind::kRelu, {m.b.add1(OpKind::kLinear, {x, w1, b1}, ir::NoAttrs{}, "l1")}, ir::NoAttrs{}, "h");
  const ValueId y = m.b.add1(OpKind::kLinear, {h, w2, ValueId()}, ir::NoAttrs{}, "y");
  CHECK(m.differentiated(m.total(y)) ==
        "reshape(scalar)\n"
        "expand(reshape)\n"
        "linear_backward_input(expand, w2)\n"
        "linear_backward_weight(expand, h)\n"
        "accumulate_grad(linear_backward_weight) w2\n"
        "relu_backward(linear_backward_input, h)\n"
        "linear_backward_weight(relu_backward, x)\n"
        "sum(relu_backward)\n"
        "accumulate_grad(linear_backward_weight_2) w1\n"
        "accumulate_grad(sum_2) b1\n");
}

// Nothing is computed for a frozen parameter, nor after a detach.
TEST_CASE("frozen parameters and detach get no gradient") {
  Model m;
  const ValueId x = m.input("x", {4, 3}), w1 = m.parameter("w1", {3, 3}, false), w2 = m.parameter("w2", {3, 3}),
                w3 = m.parameter("w3", {3, 3});
  const ValueId a = m.b.add1(OpKind::kLinear, {x, w1, ValueId()}, ir::NoAttrs{}, "a");
  const ValueId stopped = m.b.add1(OpKind::kDetach, {m.b.add1(OpKind::kLinear, {a, w3, ValueId()})});
  const ValueId y = m.b.add1(OpKind::kLinear, {a, w2, ValueId()}, ir::NoAttrs{}, "y");
  const std::string text = m.differentiated(m.total(m.b.add1(OpKind::kMul, {y, stopped})));
  CHECK(text.find("linear_backward_input") == std::string::npos);
  CHECK(text.find("w3") == std::string::npos);
  CHECK(text.find("w1") == std::string::npos);
  CHECK(text.find("accumulate_grad(linear_backward_weight) w2\n") != std::string::npos);
}

// Expressions of elementwise.def: from the left to the right, what is written twice is made once, for both operands.
TEST_CASE("an element-wise derivative is the expression of its row") {
  Model m;
  const ValueId a = m.parameter("a", {4}), b = m.parameter("b", {4});
  const std::string text = m.differentiated(m.total(m.b.add1(OpKind::kAtan2, {a, b}, ir::NoAttrs{}, "y")));
  CHECK(text ==
        "reshape(scalar)\n"
        "expand(reshape)\n"
        "mul(a, a)\n"
        "mul(b, b)\n"
        "add(mul, mul_2)\n"
        "eq(add, scalar_2)\n"
        "reciprocal(add)\n"
        "where(eq, scalar_2, reciprocal)\n"
        "mul(b, where)\n"
        "neg(a)\n"
        "mul(neg, where)\n"
        "accumulate_grad(mul_3) a\n"
        "accumulate_grad(mul_4) b\n");

  // A gradient of zero is one, and a second operand that nobody trains gets none.
  Model n;
  const ValueId x = n.parameter("x", {4}), sign = n.parameter("sign", {4});
  const std::string zero = n.differentiated(n.total(n.b.add1(OpKind::kCopysign, {x, sign})));
  CHECK(zero.find("accumulate_grad(fill) sign\n") != std::string::npos);
  Model f;
  const ValueId p = f.parameter("p", {4}), q = f.input("q", {4});
  CHECK(f.differentiated(f.total(f.b.add1(OpKind::kFmod, {p, q}))).find("trunc") == std::string::npos);
}

// The gradient of a mean loss, sum x 1/count, is the factor itself.
TEST_CASE("a gradient of one is not multiplied") {
  Model m;
  const ValueId w = m.parameter("w", {4, 3}), target = m.input("target", {4}, DType::kI64);
  const ValueId factor = m.graph.add_input("factor", {DType::kF32, {}}, false);
  const ValueId sum = m.b.add(OpKind::kCrossEntropySum, {w, target}, ir::CrossEntropyAttrs{}, "ce")[0];
  CHECK(m.differentiated(m.b.add1(OpKind::kMul, {sum, factor})) ==
        "cross_entropy_backward(factor, w, target, ce.1, -)\n"
        "accumulate_grad(cross_entropy_backward) w\n");
}

// Uses are summed per chunk in reverse op order; the producer's chunk adds the chunk sums, highest
// chunk first.
TEST_CASE("gradients are summed per chunk") {
  Model m;
  const ValueId w = m.parameter("w", {3});
  m.b.set_chunk(ir::ChunkId(0));
  const ValueId v = m.b.add1(OpKind::kExp, {w}, ir::NoAttrs{}, "v");
  const ValueId in0 = m.b.add1(OpKind::kSin, {v}, ir::NoAttrs{}, "in0");
  m.b.set_chunk(ir::ChunkId(1));
  const ValueId in1a = m.b.add1(OpKind::kTanh, {v}, ir::NoAttrs{}, "in1a");
  const ValueId in1b = m.b.add1(OpKind::kSigmoid, {v}, ir::NoAttrs{}, "in1b");
  m.b.set_chunk(ir::ChunkId(2));
  const ValueId in2 = m.b.add1(OpKind::kRelu, {v}, ir::NoAttrs{}, "in2");
  const ValueId all =
      m.b.add1(OpKind::kAdd, {m.b.add1(OpKind::kAdd, {in0, in1a}), m.b.add1(OpKind::kAdd, {in1b, in2})});
  CHECK(m.differentiated(m.total(all)) ==
        "reshape(scalar) @2\n"
        "expand(reshape) @2\n"
        "relu_backward(expand, in2) @2\n"
        "sigmoid_backward(expand, in1b) @1\n"
        "tanh_backward(expand, in1a) @1\n"
        "add(sigmoid_backward, tanh_backward) @1\n"
        "cos(v) @0\n"
        "add(relu_backward, add_4) @0\n"
        "add(add_5, cos) @0\n"
        "mul(add_6, v) @0\n"
        "accumulate_grad(mul) w @0\n");
}

// A tied parameter has one accumulator for each chunk that reads it.
TEST_CASE("a parameter of two chunks has an accumulate_grad in each") {
  Model m;
  const ValueId table = m.parameter("table", {7, 4}), index = m.input("index", {2, 3}, DType::kI64);
  m.b.set_chunk(ir::ChunkId(0));
  const ValueId x = m.b.add1(OpKind::kEmbedding, {table, index}, ir::EmbeddingAttrs{}, "x");
  m.b.set_chunk(ir::ChunkId(1));
  const ValueId logits = m.b.add1(OpKind::kLinear, {x, table, ValueId()}, ir::NoAttrs{}, "logits");
  CHECK(m.differentiated(m.total(logits)) ==
        "reshape(scalar) @1\n"
        "expand(reshape) @1\n"
        "linear_backward_input(expand, table) @1\n"
        "linear_backward_weight(expand, x) @1\n"
        "accumulate_grad(linear_backward_weight) table @1\n"
        "embedding_backward(linear_backward_input, index) @0\n"
        "accumulate_grad(embedding_backward) table @0\n");
}

// The same parameter read twice in one chunk is summed before its one accumulate_grad.
TEST_CASE("uses of a parameter in one chunk share an accumulator") {
  Model m;
  const ValueId w = m.parameter("w", {3});
  const ValueId a = m.b.add1(OpKind::kExp, {w}, ir::NoAttrs{}, "a");
  const ValueId b = m.b.add1(OpKind::kTanh, {w}, ir::NoAttrs{}, "b");
  CHECK(m.differentiated(m.total(m.b.add1(OpKind::kMul, {a, b}))) ==
        "reshape(scalar)\n"
        "expand(reshape)\n"
        "tanh_backward(a, b)\n"
        "mul(b, a)\n"
        "add(tanh_backward, mul_2)\n"
        "accumulate_grad(add) w\n");
}

// The parts of a split are joined by one cat; what nothing reads is zero.
TEST_CASE("the gradient of a split is a cat") {
  Model m;
  const ValueId w = m.parameter("w", {2, 6});
  const ValueId x = m.b.add1(OpKind::kExp, {w}, ir::NoAttrs{}, "x");
  const ValueId last = m.b.add1(OpKind::kTanh, {m.b.slice(x, 1, 4, 6)}, ir::NoAttrs{}, "last");
  (void)m.b.slice(x, 1, 2, 4);  // no use
  const ValueId first = m.b.add1(OpKind::kSigmoid, {m.b.slice(x, 1, 0, 2)}, ir::NoAttrs{}, "first");
  CHECK(m.differentiated(m.total(m.b.add1(OpKind::kAdd, {last, first}))) ==
        "reshape(scalar)\n"
        "expand(reshape)\n"
        "sigmoid_backward(expand, first)\n"
        "tanh_backward(expand, last)\n"
        "fill()\n"
        "cat(sigmoid_backward, fill, tanh_backward)\n"
        "mul(cat, x)\n"
        "accumulate_grad(mul) w\n");
}

// The backward carries the forward op's scope and a provenance derived from its.
TEST_CASE("backward ops know their origin") {
  Model m;
  const ValueId w = m.parameter("w", {3});
  (void)m.differentiated(m.total(m.b.add1(OpKind::kTanh, {w})));
  const ir::Op& last = m.graph.op(ir::OpId(m.graph.num_ops() - 1));
  CHECK(last.kind == OpKind::kAccumulateGrad);
  CHECK(m.graph.scope(last.scope) == "net");
  CHECK(std::get<piper::ir::DerivedOrigin>(m.graph.provenance().entry(last.prov)).pass == "autodiff");
}

struct Failure {
  std::string code, message;
};
Failure failure_of(Model& m, ValueId loss) {
  m.graph.loss = loss;
  const auto map = autodiff::differentiate(m.graph, m.diags);
  REQUIRE_FALSE(map.ok());
  REQUIRE(m.diags.all().size() == 1);
  return {m.diags.all()[0].code, m.diags.all()[0].message};
}

// P0420: an operator without a derivative is named with its node and module.
TEST_CASE("P0420 no derivative") {
  Model m;
  const ValueId w = m.parameter("w", {4, 3}), target = m.input("target", {4, 3});
  const Failure f = failure_of(m, m.b.add1(OpKind::kMseLoss, {w, target}, ir::ReductionAttrs{"sum"}));
  CHECK(f.code == "P0420");
  CHECK(f.message.find("mse_loss") != std::string::npos);
  CHECK(f.message.find("net") != std::string::npos);
}

// Rows are counted by their axes: the elements of an empty inner axis say nothing.
TEST_CASE("a product over an empty axis") {
  Model m;
  const ValueId x = m.input("x", {2, 3, 0}), w = m.parameter("w", {0, 4});
  const ValueId y = m.b.add1(OpKind::kMatmul, {x, w});
  const std::string text = m.differentiated(m.total(y));
  CHECK(text.find("accumulate_grad") != std::string::npos);
}

// P0420: a float mask of attention that depends on a trained parameter.
TEST_CASE("P0420 attention mask with a gradient") {
  Model m;
  const ValueId q = m.input("q", {1, 2, 4, 8}), mask = m.parameter("mask", {4, 4});
  const ValueId y = m.b.add(OpKind::kSdpa, {q, q, q, mask}, ir::SdpaAttrs{})[0];
  const Failure f = failure_of(m, m.total(y));
  CHECK(f.code == "P0420");
  CHECK(f.message.find("operand 3") != std::string::npos);
}

TEST_CASE("P0421 the loss depends on no trained parameter") {
  Model m;
  const ValueId w = m.parameter("w", {4}, false);
  CHECK(failure_of(m, m.total(w)).code == "P0421");
}

// What the loss depends on by steps alone has a gradient of zeros, in the chunk that reads it first, and the backward
// of nothing else is made; what is detached has none.
TEST_CASE("P0421 is a warning where steps alone are between") {
  Model m;
  const ValueId w = m.parameter("w", {4}), d = m.parameter("d", {4});
  const ValueId step = m.b.add1(OpKind::kFloor, {m.b.add1(OpKind::kMul, {w, w})});
  const ValueId none = m.b.add1(OpKind::kDetach, {d});
  const std::string text = m.differentiated(m.total(m.b.add1(OpKind::kAdd, {step, none})));
  CHECK(text == "fill()\naccumulate_grad(" +
                    m.graph.value(m.graph.op(ir::OpId(m.graph.num_ops() - 2)).results[0]).name + ") w\n");
  REQUIRE(m.diags.all().size() == 1);
  CHECK(m.diags.all()[0].code == "P0421");
  CHECK(m.diags.all()[0].severity == diag::Severity::kWarning);
}

// Beside a parameter that is trained.
TEST_CASE("a step beside an operator with a derivative") {
  Model m;
  const ValueId w = m.parameter("w", {4}), s = m.parameter("s", {4});
  const std::string text = m.differentiated(m.total(m.b.add1(OpKind::kAdd, {w, m.b.add1(OpKind::kSign, {s})})));
  CHECK(text.find(") w") != std::string::npos);
  CHECK(text.find(") s") != std::string::npos);
  CHECK(m.diags.all().empty());
}

TEST_CASE("P0422 the loss is not a scalar") {
  Model m;
  const ValueId w = m.parameter("w", {4});
  CHECK(failure_of(m, m.b.add1(OpKind::kExp, {w})).code == "P0422");
}

// Differentiating the same graph twice gives the same bytes, and a graph that verifies and parses.
TEST_CASE("autodiff is deterministic") {
  const auto make = [] {
    Model m;
    const ValueId x = m.input("x", {2, 6, 8}), w = m.parameter("w", {24, 8}), g = m.parameter("g", {8});
    const ValueId n = m.b.add(OpKind::kLayerNorm, {x, g, ValueId()}, ir::LayerNormAttrs{})[0];
    const ValueId qkv = m.b.add1(OpKind::kLinear, {n, w, ValueId()});
    const ValueId q = m.b.slice(qkv, 2, 0, 8), k = m.b.slice(qkv, 2, 8, 16), v = m.b.slice(qkv, 2, 16, 24);
    const ValueId p =
        m.b.add1(OpKind::kSoftmax, {m.b.add1(OpKind::kMatmul, {q, m.b.transpose(k, -1, -2)})}, ir::DimAttrs{2});
    (void)m.differentiated(m.total(m.b.add1(OpKind::kMatmul, {p, v})));
    const Status verified = ir::verify(m.graph);
    INFO((verified.ok() ? "" : verified.error().message));
    CHECK(verified.ok());
    return ir::print(m.graph);
  };
  const std::string text = make();
  CHECK(make() == text);
  const Result<ir::Graph> again = ir::parse_graph(text, "printed.pir");
  REQUIRE(again.ok());
  CHECK(ir::print(*again) == text);
}

// An operator has a rule where its row of ops.def says so, and only there.
TEST_CASE("every operator has a rule or is named as not differentiated") {
  const std::vector<OpKind> kinds = {
#define PIPER_OP(enumerator, ...) OpKind::enumerator,
#include "compiler/ir/ops.def"
#undef PIPER_OP
  };
  for (OpKind kind : kinds) {
    INFO(op_name(kind));
    CHECK((autodiff::find_rule(kind) != nullptr) == (autodiff::derivative_of(kind) == autodiff::Derivative::kRule));
  }
}

}  // namespace
