// What the importer makes of single ATen calls.
#include <catch2/catch.hpp>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "compiler/frontend/fold.h"
#include "tests/unit/aten_model.h"

using namespace piper;
using frontend::aten::Item;
using ir::OpKind;
using Model = test::AtenModel;

namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();

// The number of a known tensor of int64 without axes.
int64_t number(const Model& m, ir::ValueId v) {
  const auto known = frontend::constant_of(m.graph, v);
  REQUIRE(known);
  REQUIRE(known->type == ir::TensorType{DType::kI64, {}});
  int64_t out = 0;
  std::memcpy(&out, known->data()->data(), sizeof out);
  return out;
}

}  // namespace

TEST_CASE("attention whose values are narrower or wider is one operator, of the wider width and the keys' scale") {
  for (const auto& [of_keys, of_values] : {std::pair<int64_t, int64_t>{9, 3}, {9, 16}}) {
    Model m;
    const Item q = m.input("q", DType::kF32, {2, 4, 5, of_keys}), v = m.input("v", DType::kF32, {2, 2, 5, of_values});
    const Item k = m.input("k", DType::kF32, {2, 2, 5, of_keys});
    const Item y = m.call("aten.scaled_dot_product_attention.default", {q, k, v},
                          {{"is_causal", Item::of_bool(true)}, {"enable_gqa", Item::of_bool(true)}});
    REQUIRE(m.status.ok());
    CHECK(m.graph.type(y.tensor) == ir::TensorType{DType::kF32, {2, 4, 5, of_values}});
    REQUIRE(m.has(OpKind::kSdpa));
    for (size_t i = 0; i < m.graph.num_ops(); ++i) {
      const ir::Op& op = m.graph.op(ir::OpId(i));
      if (op.kind == OpKind::kSdpa) CHECK(std::get<ir::SdpaAttrs>(op.attrs).scale == 1.0 / 3);
    }
  }
}

TEST_CASE("a range that indexes is not written out: 4 GiB") {
  constexpr int64_t kRows = int64_t{1} << 29;
  Model m;
  const Item x = m.input("x", DType::kF32, {kRows, 3}), range = m.call("aten.arange.default", {Item::of_int(kRows)});
  const Item y = m.call("aten.index.Tensor", {x, Item::of_list({range})});
  REQUIRE(m.status.ok());
  CHECK(m.graph.type(y.tensor) == ir::TensorType{DType::kF32, {kRows, 3}});
  CHECK_FALSE(m.has(OpKind::kIndexSelect));
}

// A double rounds integers beyond 2^53, and 2^63 is no int64 at all.
TEST_CASE("large integers are kept exactly") {
  for (const int64_t n : {kMost, kLeast, (int64_t{1} << 53) + 1, int64_t{7}}) {
    INFO(n);
    Model m;
    const Item x = m.input("x", DType::kI64, {3}), mask = m.input("mask", DType::kBool, {3});
    const Item filled = m.call("aten.masked_fill.Scalar", {x, mask, Item::of_int(n)});
    const Item shape = Item::of_list({Item::of_int(3)});
    const std::vector<Item> all = {m.call("aten.full.default", {shape, Item::of_int(n)}),
                                   m.call("aten.full_like.default", {x, Item::of_int(n)}),
                                   m.call("aten.new_full.default", {x, shape, Item::of_int(n)})};
    const Item least = m.call("aten.clamp.default", {x, Item::none(), Item::of_int(n)});
    REQUIRE(m.status.ok());
    CHECK(number(m, m.producer(filled).operands[1]) == n);
    CHECK(number(m, m.producer(least).operands[1]) == n);
    for (const Item& y : all) CHECK(number(m, m.producer(y).operands[0]) == n);
  }
}

TEST_CASE("numbers that an integer tensor does not hold are refused") {
  const auto refused = [](DType dtype, const Item& n) {
    Model m;
    m.call("aten.masked_fill.Scalar", {m.input("x", dtype, {3}), m.input("mask", DType::kBool, {3}), n});
    return !m.status.ok() && m.status.error().code == "P0306";
  };
  CHECK(refused(DType::kI32, Item::of_int(int64_t{1} << 31)));
  CHECK_FALSE(refused(DType::kI32, Item::of_int(-(int64_t{1} << 31))));
  CHECK(refused(DType::kI64, Item::of_float(-std::numeric_limits<double>::infinity())));
  CHECK_FALSE(refused(DType::kF32, Item::of_float(-std::numeric_limits<double>::infinity())));
  Model m;
  m.call("aten.constant_pad_nd.default",
         {m.input("x", DType::kI64, {3}), Item::of_list({Item::of_int(1), Item::of_int(1)}), Item::of_int(kMost)});
  CHECK_FALSE(m.status.ok());
}

// The square of this factor is 0 in 64 bits.
TEST_CASE("a pixel shuffle by a factor whose square overflows is refused") {
  Model m;
  const int64_t factor = int64_t{1} << 32;
  m.call("aten.pixel_shuffle.default", {m.input("x", DType::kF32, {1, factor, 1, 1}), Item::of_int(factor)});
  REQUIRE_FALSE(m.status.ok());
  CHECK(m.status.error().message.find("pixel_shuffle wants") != std::string::npos);
}

TEST_CASE("element-wise calls that PyTorch computes otherwise, or not, are refused") {
  const auto refused = [](const char* target, std::vector<Item> arguments, DType type = DType::kF32) {
    Model m;
    arguments.insert(arguments.begin() + (target == std::string("aten.polygamma.default")), m.input("x", type, {3}));
    m.call(target, std::move(arguments));
    return m.status.ok() ? std::string() : m.status.error().message;
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(refused("aten.softplus.default", {Item::of_int(1), Item::of_int(100)}), Contains("thresholds up to 88"));
  CHECK_THAT(refused("aten.softplus.default", {Item::of_int(1), Item::of_int(30)}, DType::kF64),
             Contains("in f64 up to 20"));
  CHECK(refused("aten.softplus.default", {Item::of_int(1), Item::of_int(30)}).empty());
  CHECK_THAT(refused("aten.polygamma.default", {Item::of_int(-1)}), Contains("negative order"));
  CHECK_THAT(refused("aten.linalg_vector_norm.default", {Item::of_float(0.5)}), Contains("ord 0, 1 and above"));
  CHECK_THAT(refused("aten.frac.default", {}, DType::kI64), Contains("frac of integers"));
  CHECK_THAT(refused("aten.round.decimals", {Item::of_int(1)}, DType::kI64), Contains("not rounded to decimals"));
}

TEST_CASE("flip and squeeze of no axes leave their operand") {
  for (const char* target : {"aten.flip.default", "aten.squeeze.dims"}) {
    Model m;
    const Item x = m.input("x", DType::kF32, {3, 1, 4});
    const Item y = m.call(target, {x, Item::of_list({})});
    REQUIRE(m.status.ok());
    CHECK(y.tensor == x.tensor);
  }
  Model m;
  const Item x = m.input("x", DType::kF32, {3, 1, 4});
  CHECK(m.graph.type(m.call("aten.sum.dim_IntList", {x, Item::of_list({})}).tensor).shape.empty());
}

TEST_CASE("only a stack of tensors of extent 1 is taken apart by its operands") {
  const auto selected = [](const std::vector<int64_t>& extents, int64_t i) {
    Model m;
    std::vector<Item> parts;
    for (const int64_t n : extents) parts.push_back(m.input("x" + std::to_string(parts.size()), DType::kF32, {n, 4}));
    const Item whole = m.call("aten.cat.default", {Item::of_list(parts), Item::of_int(0)});
    m.call("aten.select.int", {whole, Item::of_int(0), Item::of_int(i)});
    REQUIRE(m.status.ok());
    return m.has(OpKind::kSlice);
  };
  CHECK(selected({2, 1, 0}, 1));
  CHECK_FALSE(selected({1, 1, 1}, 1));
}
