// What the importer makes of single ATen calls.
#include <catch2/catch.hpp>

#include <cstdint>

#include "tests/unit/aten_model.h"

using namespace piper;
using frontend::aten::Item;
using ir::OpKind;
using Model = test::AtenModel;

TEST_CASE("attention whose values are narrower is written out") {
  Model m;
  const Item q = m.input("q", DType::kF32, {2, 4, 5, 6}), v = m.input("v", DType::kF32, {2, 2, 5, 3});
  const Item k = m.input("k", DType::kF32, {2, 2, 5, 6});
  const Item y = m.call("aten.scaled_dot_product_attention.default", {q, k, v},
                        {{"is_causal", Item::of_bool(true)}, {"enable_gqa", Item::of_bool(true)}});
  REQUIRE(m.status.ok());
  CHECK_FALSE(m.has(OpKind::kSdpa));
  CHECK(m.graph.type(y.tensor) == ir::TensorType{DType::kF32, {2, 4, 5, 3}});
}
