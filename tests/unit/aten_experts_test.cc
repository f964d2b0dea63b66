// ATen calls around grouped products: what the importer makes of one call after another.
#include <catch2/catch.hpp>

#include "compiler/frontend/experts/recognise_sorted.h"
#include "tests/unit/aten_model.h"

using namespace piper;
using frontend::aten::Item;
using Model = test::AtenModel;

TEST_CASE("offsets that are sums of counts give the counts back, and a turned weight is read as stored") {
  Model m;
  const Item sorted = m.call("aten.sort.default", {m.input("ids", DType::kI64, {6})});
  const Item numbers = m.call("aten._to_copy.default", {sorted.list[0]}, {{"dtype", Item::of_text("torch.float32")}});
  const Item counts = m.call("aten.histc.default", {numbers, Item::of_int(4), Item::of_int(0), Item::of_int(3)});
  // Whole numbers with one bin for each are compared, not put between edges.
  CHECK(m.has(ir::OpKind::kEq));
  CHECK_FALSE(m.has(ir::OpKind::kGe));
  const Item ends = m.call("aten.cumsum.default", {counts, Item::of_int(0)}, {{"dtype", Item::of_text("torch.int32")}});
  const Item w =
      m.call("aten.transpose.int", {m.input("w", DType::kF32, {4, 5, 3}), Item::of_int(-2), Item::of_int(-1)});
  const Item y = m.call("transformers.grouped_mm_fallback.default", {m.input("x", DType::kF32, {6, 3}), w, ends});
  REQUIRE(m.status.ok());
  const ir::Op& product = m.producer(y);
  REQUIRE(product.kind == ir::OpKind::kGroupedMatmul);
  CHECK(std::get<ir::GroupedMatmulAttrs>(product.attrs).transposed);
  CHECK(m.graph.value(product.operands[1]).kind == ir::ValueKind::kInput);
  CHECK(m.graph.type(product.operands[2]) == ir::TensorType{DType::kI64, {1, 4}});
  CHECK_FALSE(m.has(ir::OpKind::kSub));
}

TEST_CASE("offsets of another origin are subtracted from each other") {
  Model m;
  const Item y = m.call(
      "aten._grouped_mm.default",
      {m.input("x", DType::kF32, {6, 3}), m.input("w", DType::kF32, {4, 3, 5}), m.input("ends", DType::kI32, {4})});
  REQUIRE(m.status.ok());
  CHECK(m.graph.type(y.tensor) == ir::TensorType{DType::kF32, {6, 5}});
  CHECK(m.has(ir::OpKind::kSub));
}

TEST_CASE("grouped products of another form are refused") {
  Model rows;
  rows.call("aten._grouped_mm.default", {rows.input("x", DType::kF32, {3, 6}), rows.input("w", DType::kF32, {6, 5}),
                                         rows.input("ends", DType::kI32, {4})});
  CHECK_FALSE(rows.status.ok());
  Model none;
  none.call("aten._grouped_mm.default",
            {none.input("x", DType::kF32, {4, 2, 6}), none.input("w", DType::kF32, {4, 6, 5})});
  CHECK_FALSE(none.status.ok());
}

TEST_CASE("a write without accumulation is a scatter, at the places of a sort as at any others") {
  Model m;
  const Item ids = m.input("ids", DType::kI64, {6}), places = m.input("places", DType::kI64, {6});
  const Item order = m.call("aten.sort.default", {ids}).list[1];
  const Item empty = m.call("aten.empty_like.default", {order});
  m.call("aten.index_put.default", {empty, Item::of_list({order}), places});
  CHECK(m.status.ok());
  CHECK(m.has(ir::OpKind::kScatter));
  m.call("aten.index_put.default", {empty, Item::of_list({ids}), places});
  CHECK(m.status.ok());
  CHECK_FALSE(m.has(ir::OpKind::kScatterAdd));
}

TEST_CASE("rows of a step are sorted by their experts without writing a number for each: 4 GiB") {
  constexpr int64_t kRows = int64_t{1} << 29;
  Model m;
  const std::vector<Item> sorted = m.call("aten.sort.default", {m.input("ids", DType::kI64, {kRows})}).list;
  const Item numbers = m.call("aten._to_copy.default", {sorted[0]}, {{"dtype", Item::of_text("torch.float32")}});
  const Item counts = m.call("aten.histc.default", {numbers, Item::of_int(4), Item::of_int(0), Item::of_int(3)});
  const Item ends = m.call("aten.cumsum.default", {counts, Item::of_int(0)}, {{"dtype", Item::of_text("torch.int32")}});
  const Item y = m.call("aten._grouped_mm.default",
                        {m.input("x", DType::kF32, {kRows, 3}), m.input("w", DType::kF32, {4, 3, 5}), ends});
  const Item empty = m.call("aten.empty_like.default", {sorted[1]});
  const Item inverse = m.call("aten.index_put.default", {empty, Item::of_list({sorted[1]}),
                                                         m.call("aten.arange.default", {Item::of_int(kRows)})});
  const Item back = m.call("aten.index.Tensor", {y, Item::of_list({inverse})});
  REQUIRE(m.status.ok());
  m.graph.outputs.push_back({"y", back.tensor});
  m.graph = frontend::experts::recognise_sorted(std::move(m.graph));
  CHECK(m.has(ir::OpKind::kExpertOrder));
  CHECK_FALSE(m.has(ir::OpKind::kScatter));
}
