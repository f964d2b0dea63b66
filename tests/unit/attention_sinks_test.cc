// Attention with sinks as a model writes it out, call by call, and what is no such attention.
#include <catch2/catch.hpp>

#include "compiler/frontend/patterns/recognise.h"
#include "compiler/ir/shapes.h"
#include "tests/unit/aten_model.h"

using namespace piper;
using frontend::aten::Item;
using ir::OpKind;
using Model = test::AtenModel;

namespace {

constexpr int64_t kBatch = 3, kHeads = 4, kPlaces = 300, kWidth = 8;

Item ints(const std::vector<int64_t>& numbers) {
  std::vector<Item> items;
  for (const int64_t number : numbers) items.push_back(Item::of_int(number));
  return Item::of_list(std::move(items));
}

// softmax(cat(q k^T * scale + mask, sinks) - max)[.., :kept] v; two heads of queries for each of keys.
ir::Graph attention(int64_t kept, int64_t along = 3) {
  Model m;
  const Item q = m.input("q", DType::kF32, {kBatch, kHeads, kPlaces, kWidth});
  const auto heads = [&](const std::string& name) {
    const Item x =
        m.call("aten.unsqueeze.default", {m.input(name, DType::kF32, {kBatch, 2, kPlaces, kWidth}), Item::of_int(2)});
    return m.call("aten.reshape.default", {m.call("aten.expand.default", {x, ints({kBatch, 2, 2, kPlaces, kWidth})}),
                                           ints({kBatch, kHeads, kPlaces, kWidth})});
  };
  const Item k = m.call("aten.transpose.int", {heads("k"), Item::of_int(2), Item::of_int(3)}), v = heads("v");
  const Item places = m.call("aten.arange.default", {Item::of_int(kPlaces)});
  const Item open = m.call("aten.le.Tensor", {places, m.call("aten.unsqueeze.default", {places, Item::of_int(1)})});
  const Item mask = m.call("aten.where.ScalarOther",
                           {open, m.call("aten.zeros.default", {ints({1, 1, 1, 1})}), Item::of_float(-3.0e38)});
  const Item scaled = m.call("aten.mul.Tensor", {m.call("aten.matmul.default", {q, k}), Item::of_float(0.25)});
  const Item sinks =
      m.call("aten.expand.default",
             {m.call("aten.reshape.default", {m.input("sinks", DType::kF32, {kHeads}), ints({1, kHeads, 1, 1})}),
              ints({kBatch, kHeads, kPlaces, 1})});
  const Item logits =
      m.call("aten.cat.default", {Item::of_list({m.call("aten.add.Tensor", {scaled, mask}), sinks}), Item::of_int(3)});
  const Item most = m.call("aten.max.dim", {logits, Item::of_int(along), Item::of_bool(true)}).list[0];
  const Item weights = m.call("aten.softmax.int", {m.call("aten.sub.Tensor", {logits, most}), Item::of_int(3)});
  const Item of_keys = m.call("aten.slice.Tensor", {weights, Item::of_int(3), Item::of_int(0), Item::of_int(kept)});
  m.graph.outputs.push_back({"y", m.call("aten.matmul.default", {of_keys, v}).tensor});
  if (!m.status.ok()) FAIL(m.status.error().message);
  return frontend::recognise(std::move(m.graph));
}

const ir::Op* fused(const ir::Graph& graph) {
  for (size_t i = 0; i < graph.num_ops(); ++i)
    if (graph.op(ir::OpId(i)).kind == OpKind::kSdpa) return &graph.op(ir::OpId(i));
  return nullptr;
}

}  // namespace

TEST_CASE("a sink is an operand of the fused operator, whose mask is as it was") {
  const ir::Graph graph = attention(-1);
  const ir::Op* const op = fused(graph);
  REQUIRE(op != nullptr);
  const auto& attrs = std::get<ir::SdpaAttrs>(op->attrs);
  CHECK(attrs.scale == 0.25);
  CHECK(attrs.is_causal);
  REQUIRE(op->operands.size() == 5);
  CHECK(!op->operands[3].valid());
  CHECK(graph.type(op->operands[0]).shape == ir::Shape{kBatch, kHeads, kPlaces, kWidth});
  CHECK(graph.type(op->operands[1]).shape == ir::Shape{kBatch, 2, kPlaces, kWidth});
  CHECK(graph.type(op->operands[4]).shape == ir::Shape{kBatch, kHeads, kPlaces, 1});
  CHECK(graph.type(graph.outputs[0].value).shape == ir::Shape{kBatch, kHeads, kPlaces, kWidth});
  for (size_t i = 0; i < graph.num_values(); ++i)
    CHECK(graph.type(ir::ValueId(i)).elements() <= kBatch * kHeads * kPlaces * kWidth);
}

TEST_CASE("what subtracts something else than the largest score of each query stays as it is") {
  CHECK(fused(attention(-1, 2)) == nullptr);
}
