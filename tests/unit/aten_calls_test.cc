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
using Catch::Matchers::Contains;
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

TEST_CASE("axes before the heads of an attention are more of its batch, and a mask for all of them stays one") {
  Model m;
  const Item q = m.input("q", DType::kF32, {2, 3, 4, 5, 8}), k = m.input("k", DType::kF32, {2, 1, 4, 6, 8});
  const Item mask = m.input("mask", DType::kF32, {1, 4, 5, 6});
  const Item y = m.call("aten.scaled_dot_product_attention.default", {q, k, k, mask});
  REQUIRE(m.status.ok());
  CHECK(m.graph.type(y.tensor) == ir::TensorType{DType::kF32, {2, 3, 4, 5, 8}});
  for (size_t i = 0; i < m.graph.num_ops(); ++i) {
    const ir::Op& op = m.graph.op(ir::OpId(i));
    if (op.kind != OpKind::kSdpa) continue;
    CHECK(m.graph.type(op.operands[1]).shape == std::vector<int64_t>{6, 4, 6, 8});
    CHECK(m.graph.type(op.operands[3]).shape == std::vector<int64_t>{1, 4, 5, 6});
  }
  CHECK(m.has(OpKind::kSdpa));
  Model other;
  const Item wrong = other.input("k", DType::kF32, {2, 2, 4, 6, 8});
  other.call("aten.scaled_dot_product_attention.default",
             {other.input("q", DType::kF32, {2, 3, 4, 5, 8}), wrong, wrong});
  CHECK_FALSE(other.status.ok());
}

TEST_CASE("statistics that a batch norm gives beside its result have no gradient") {
  Model m;
  const Item x = m.input("x", DType::kF32, {4, 3, 5});
  const Item y = m.call("aten._native_batch_norm_legit.no_stats", {x, Item::none(), Item::none(), Item::of_bool(true),
                                                                   Item::of_float(0.1), Item::of_float(1e-5)});
  REQUIRE(m.status.ok());
  REQUIRE(y.list.size() == 3);
  CHECK(m.producer(y.list[0]).kind == OpKind::kBatchNorm);
  CHECK(m.producer(y.list[1]).kind == OpKind::kDetach);
  CHECK(m.producer(y.list[2]).kind == OpKind::kDetach);
}

TEST_CASE(
    "transforms of more points than a matrix is made for, and of other frequencies than of the points, are refused") {
  const auto said = [](const char* target, std::vector<int64_t> shape, std::vector<Item> rest) {
    Model m;
    std::vector<Item> arguments{m.input("x", DType::kF32, std::move(shape))};
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    m.call(target, std::move(arguments));
    return m.status.ok() ? std::string() : m.status.error().code + " " + m.status.error().message;
  };
  const Item dim = Item::of_list({Item::of_int(1)}), twice = Item::of_list({Item::of_int(1), Item::of_int(-1)});
  CHECK_THAT(said("aten.fft_rfft.default", {2, 8}, {Item::of_int(4097)}),
             Contains("P0306 a Fourier transform of 4097"));
  CHECK_THAT(said("aten.fft_rfft.default", {2, 0}, {}), Contains("P0306 a Fourier transform of 0"));
  CHECK_THAT(said("aten.fft_irfft.default", {2, 1}, {}), Contains("P0306 a Fourier transform of 0"));
  CHECK_THAT(said("aten.fft_rfftn.default", {2, 8}, {Item::none(), twice}), Contains("twice along one"));
  CHECK_THAT(said("aten.fft_rfftn.default", {2, 8}, {dim, twice}), Contains("P0306"));
  CHECK_THAT(said("aten._fft_c2r.default", {2, 5}, {dim, Item::of_int(0), Item::of_int(6)}), Contains("frequencies"));
  CHECK(said("aten._fft_c2r.default", {2, 5}, {dim, Item::of_int(0), Item::of_int(9)}).empty());
  CHECK_THAT(said("aten._fft_r2c.default", {2, 5}, {dim, Item::of_int(3), Item::of_bool(true)}), Contains("normalis"));
  CHECK_THAT(said("aten.stft.default", {7}, {Item::of_int(8)}), Contains("P0306 stft of this form"));
  CHECK_THAT(said("aten.view_as_complex.default", {2, 3}, {}), Contains("two along the last axis"));
  CHECK_THAT(said("aten.imag.default", {2, 3}, {}), Contains("imag of a real tensor"));
}

TEST_CASE("a complex number is its two parts, and calls that know none refuse it") {
  Model m;
  const Item z = m.call("aten.view_as_complex.default", {m.input("x", DType::kF32, {4, 6, 2})});
  REQUIRE(z.list.size() == 2);
  const Item conjugate = m.call("aten._conj.default", {z});
  REQUIRE(m.status.ok());
  REQUIRE(conjugate.list.size() == 2);
  CHECK(conjugate.list[0].tensor == z.list[0].tensor);
  CHECK(m.producer(conjugate.list[1]).kind == OpKind::kNeg);
  m.call("aten.exp.default", {z});
  CHECK(m.status.error().code == "P0306");
}

TEST_CASE("numbers that depend on the data are refused where they would make a shape") {
  Model m;
  m.call("aten.tensor_split.tensor_indices_or_sections",
         {m.input("x", DType::kF32, {6}), m.input("n", DType::kI64, {2})});
  CHECK(m.status.error().code == "P0323");
  Model number;
  number.call("aten.item.default", {number.input("n", DType::kI64, {})});
  CHECK(number.status.error().code == "P0323");
}

TEST_CASE("windows, bags and slopes that cannot be had exactly are refused") {
  const auto refused = [](const char* target, std::vector<std::vector<int64_t>> shapes, std::vector<Item> rest) {
    Model m;
    std::vector<Item> arguments;
    for (std::vector<int64_t>& shape : shapes)
      arguments.push_back(m.input("x" + std::to_string(arguments.size()), DType::kF32, std::move(shape)));
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    m.call(target, std::move(arguments));
    return m.status.ok() ? std::string() : m.status.error().code + " " + m.status.error().message;
  };
  const auto ints = [](std::vector<int64_t> of) {
    std::vector<Item> out;
    for (int64_t v : of) out.push_back(Item::of_int(v));
    return Item::of_list(std::move(out));
  };
  CHECK_THAT(refused("aten.rrelu.default", {{2, 3}}, {Item::of_float(0.1), Item::of_float(0.3), Item::of_bool(true)}),
             Contains("P0321 rrelu in training draws"));
  CHECK(refused("aten.rrelu.default", {{2, 3}}, {Item::of_float(0.1), Item::of_float(0.3)}).empty());
  CHECK_THAT(refused("aten.exponential.default", {{2, 3}}, {}), Contains("P0321 'aten.exponential.default' draws"));
  CHECK_THAT(refused("aten.masked_select.default", {{2, 3}, {2, 3}}, {}), Contains("P0323 the shape that"));
  CHECK_THAT(refused("aten.nonzero.default", {{6}}, {}), Contains("P0323 the shape that"));
  CHECK_THAT(refused("aten._unique2.default", {{6}}, {}), Contains("P0323 the shape that"));
  CHECK_THAT(refused("aten.feature_dropout.default", {{6}}, {Item::of_float(0.5), Item::of_bool(true)}),
             Contains("wants [N, C, ..]"));
  CHECK(refused("aten.feature_dropout.default", {{6}}, {Item::of_float(0.5), Item::of_bool(false)}).empty());
  CHECK_THAT(refused("aten.embedding_bag.default", {{5, 4}, {7}, {2}}, {}), Contains("bags of known sizes"));
  CHECK_THAT(refused("aten.cdist.default", {{3, 4}, {2, 4}}, {Item::of_float(0.5)}), Contains("order below 1"));
  CHECK_THAT(refused("aten.col2im.default", {{1, 4, 9}},
                     {ints({2, 2}), ints({3, 3}), ints({1, 1}), ints({0, 0}), ints({1, 1})}),
             Contains("windows of nothing"));
  CHECK_THAT(refused("aten.avg_pool3d.default", {{2, 2, 2}}, {ints({1, 1, 1})}), Contains("needs channels"));
  CHECK_THAT(refused("aten.conv3d.default", {{2, 3, 4, 4, 4, 4}, {2, 3, 1, 1, 1, 1}}, {}),
             Contains("one axis, two or three"));
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
  CHECK_THAT(refused("aten.softplus.default", {Item::of_int(1), Item::of_int(100)}), Contains("thresholds up to 88"));
  CHECK_THAT(refused("aten.softplus.default", {Item::of_int(1), Item::of_int(30)}, DType::kF64),
             Contains("in f64 up to 20"));
  CHECK(refused("aten.softplus.default", {Item::of_int(1), Item::of_int(30)}).empty());
  CHECK_THAT(refused("aten.polygamma.default", {Item::of_int(-1)}), Contains("negative order"));
  CHECK_THAT(refused("aten.linalg_vector_norm.default", {Item::of_float(0.5)}), Contains("ord 0, 1 and above"));
  CHECK_THAT(refused("aten.frac.default", {}, DType::kI64), Contains("frac of integers"));
  CHECK_THAT(refused("aten.round.decimals", {Item::of_int(1)}, DType::kI64), Contains("not rounded to decimals"));
}

TEST_CASE("factorisations that PyTorch does not differentiate, or does not have, are refused") {
  const auto refused = [](const char* target, std::vector<int64_t> shape, std::vector<Item> arguments = {},
                          std::vector<std::pair<std::string, Item>> named = {}, DType type = DType::kF32) {
    Model m;
    arguments.insert(arguments.begin(), m.input("x", type, std::move(shape)));
    m.call(target, std::move(arguments), std::move(named));
    return m.status.ok() ? std::string() : m.status.error().message;
  };
  CHECK(refused("aten.linalg_qr.default", {2, 3}, {Item::of_text("complete")}).empty());
  CHECK_THAT(refused("aten.linalg_qr.default", {3, 2}, {Item::of_text("complete")}), Contains("no derivative"));
  CHECK_THAT(refused("aten.linalg_qr.default", {3, 2}, {Item::of_text("r")}), Contains("no derivative"));
  CHECK_THAT(refused("aten.linalg_cholesky.default", {3, 2}), Contains("square matrices"));
  CHECK_THAT(refused("aten.linalg_cholesky.default", {3}), Contains("square matrices"));
  CHECK_THAT(refused("aten.linalg_svd.default", {3, 3}, {}, {}, DType::kI64), Contains("floating-point"));
  CHECK_THAT(refused("aten.linalg_lu_factor.default", {3, 3}, {}, {{"pivot", Item::of_bool(false)}}),
             Contains("without pivots"));
  CHECK_THAT(refused("aten.linalg_tensorinv.default", {2, 3, 4}), Contains("square matrices"));
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
