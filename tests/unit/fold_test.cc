// The constant evaluator against values that PyTorch gives.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/frontend/fold.h"
#include "tests/unit/constant_tensor.h"

namespace piper::frontend {
namespace {

using ir::OpKind;

ConstantTensor i64(std::vector<int64_t> shape, std::vector<int64_t> data) {
  return constant_tensor(DType::kI64, std::move(shape), data);
}
ConstantTensor f32(std::vector<int64_t> shape, std::vector<float> data) {
  return constant_tensor(DType::kF32, std::move(shape), data);
}
ConstantTensor boolean(std::vector<int64_t> shape, std::vector<uint8_t> data) {
  return constant_tensor(DType::kBool, std::move(shape), data);
}

template <class T>
std::vector<T> numbers(const ConstantTensor& t) {
  std::vector<T> data(static_cast<size_t>(t.type.elements()));
  if (!data.empty()) std::memcpy(data.data(), t.data()->data(), t.data()->size());
  return data;
}

template <class T>
std::vector<T> result(OpKind kind, const ir::Attrs& attrs, const std::vector<ConstantTensor>& operands,
                      size_t which = 0) {
  auto results = evaluate(kind, attrs, operands);
  REQUIRE(results);
  return numbers<T>((*results)[which]);
}
using I = std::vector<int64_t>;
using F = std::vector<float>;
using B = std::vector<uint8_t>;

const float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("views of constants") {
  ConstantTensor x = i64({2, 3}, {0, 1, 2, 3, 4, 5});
  CHECK(result<int64_t>(OpKind::kPermute, ir::PermuteAttrs{{1, 0}}, {x}) == I{0, 3, 1, 4, 2, 5});
  CHECK(result<int64_t>(OpKind::kSlice, ir::SliceAttrs{1, 0, 3, 2}, {x}) == I{0, 2, 3, 5});
  CHECK(result<int64_t>(OpKind::kExpand, ir::ExpandAttrs{{2, 2}}, {i64({2, 1}, {7, 8})}) == I{7, 7, 8, 8});
  CHECK(result<int64_t>(OpKind::kReshape, ir::ReshapeAttrs{{3, 2}}, {x}) == I{0, 1, 2, 3, 4, 5});
  CHECK(result<float>(OpKind::kFill, ir::FillAttrs{{2}, 0.5, DType::kF32}, {}) == F{0.5f, 0.5f});
  CHECK(result<int64_t>(OpKind::kSlice, ir::SliceAttrs{0, 1, 1, 1}, {x}).empty());
}

TEST_CASE("integer division floors and refuses zero") {
  ConstantTensor a = i64({4}, {7, -7, 7, -7}), b = i64({4}, {2, 2, -2, -2});
  CHECK(result<int64_t>(OpKind::kDiv, ir::NoAttrs{}, {a, b}) == I{3, -4, -4, 3});
  CHECK_FALSE(evaluate(OpKind::kDiv, ir::NoAttrs{}, {a, i64({}, {0})}));
  ConstantTensor low = i64({1}, {INT64_MIN});
  CHECK(result<int64_t>(OpKind::kDiv, ir::NoAttrs{}, {low, i64({1}, {-1})}) == I{INT64_MIN});
  CHECK(result<int64_t>(OpKind::kNeg, ir::NoAttrs{}, {low}) == I{INT64_MIN});
}

TEST_CASE("element-wise constants broadcast; NaN goes through") {
  CHECK(result<float>(OpKind::kAdd, ir::NoAttrs{}, {f32({2, 1}, {1, 2}), f32({2}, {10, 20})}) == F{11, 21, 12, 22});
  CHECK(std::isnan(result<float>(OpKind::kMaximum, ir::NoAttrs{}, {f32({1}, {1}), f32({1}, {kNan})})[0]));
  CHECK(result<uint8_t>(OpKind::kLe, ir::NoAttrs{}, {i64({3}, {0, 1, 2}), i64({}, {1})}) == B{1, 1, 0});
  CHECK(result<uint8_t>(OpKind::kLogicalAnd, ir::NoAttrs{}, {boolean({2}, {1, 0}), boolean({2}, {1, 1})}) == B{1, 0});
  CHECK(result<float>(OpKind::kWhere, ir::NoAttrs{}, {boolean({2, 1}, {1, 0}), f32({}, {5}), f32({2}, {1, 2})}) ==
        F{5, 5, 1, 2});
  CHECK(result<float>(OpKind::kSqrt, ir::NoAttrs{}, {f32({2}, {4, 2})}) == F{2, std::sqrt(2.0f)});
  CHECK(result<float>(OpKind::kCos, ir::NoAttrs{}, {f32({1}, {1})}) == F{0.5403023f});
  CHECK(result<uint8_t>(OpKind::kIsNan, ir::NoAttrs{}, {f32({2}, {kNan, 1})}) == B{1, 0});
  CHECK(result<int64_t>(OpKind::kPowScalar, ir::ExponentAttrs{3}, {i64({2}, {2, -3})}) == I{8, -27});
  CHECK(result<float>(OpKind::kClamp, ir::ClampAttrs{0, std::numeric_limits<double>::infinity()},
                      {f32({2}, {-1, 9})}) == F{0, 9});
}

TEST_CASE("casts truncate, and anything but zero is true") {
  CHECK(result<int64_t>(OpKind::kCast, ir::CastAttrs{DType::kI64}, {f32({3}, {1.9f, -1.9f, kNan})}) == I{1, -1, 0});
  CHECK(result<uint8_t>(OpKind::kCast, ir::CastAttrs{DType::kBool}, {f32({3}, {0.5f, 0, 256})}) == B{1, 0, 1});
  CHECK(result<float>(OpKind::kCast, ir::CastAttrs{DType::kF32}, {boolean({2}, {1, 0})}) == F{1, 0});
}

TEST_CASE("reductions and scans of constants") {
  ConstantTensor x = i64({2, 3}, {1, 5, 2, 4, 0, 4});
  CHECK(result<int64_t>(OpKind::kSum, ir::ReduceAttrs{{1}, false}, {x}) == I{8, 8});
  CHECK(result<int64_t>(OpKind::kAmax, ir::ReduceAttrs{{0}, true}, {x}) == I{4, 5, 4});
  CHECK(result<int64_t>(OpKind::kCumsum, ir::DimAttrs{1}, {x}) == I{1, 6, 8, 4, 4, 8});
  CHECK(result<float>(OpKind::kMean, ir::ReduceAttrs{{0, 1}, false}, {f32({2, 2}, {1, 2, 3, 4})}) == F{2.5f});
  CHECK(result<int64_t>(OpKind::kTopk, ir::TopkAttrs{1, 2}, {x}) == I{5, 2, 4, 4});
  CHECK(result<int64_t>(OpKind::kTopk, ir::TopkAttrs{1, 2}, {x}, 1) == I{1, 2, 0, 2});
  CHECK(result<int64_t>(OpKind::kMaxDim, ir::TopkAttrs{1, 1}, {x}, 1) == I{1, 0});
  CHECK(result<float>(OpKind::kMatmul, ir::NoAttrs{}, {f32({1, 2, 1}, {1, 2}), f32({2, 1, 2}, {1, 2, 3, 4})}) ==
        F{1, 2, 2, 4, 3, 4, 6, 8});
}

TEST_CASE("indexing of constants") {
  ConstantTensor x = i64({2, 3}, {0, 1, 2, 3, 4, 5});
  CHECK(result<int64_t>(OpKind::kGather, ir::DimAttrs{1}, {x, i64({2, 2}, {2, 0, 1, 1})}) == I{2, 0, 4, 4});
  CHECK(result<int64_t>(OpKind::kIndexSelect, ir::DimAttrs{1}, {x, i64({2}, {2, 0})}) == I{2, 0, 5, 3});
  CHECK(result<int64_t>(OpKind::kScatter, ir::DimAttrs{1}, {x, i64({2, 1}, {0, 2}), i64({2, 1}, {9, 8})}) ==
        I{9, 1, 2, 3, 4, 8});
  CHECK(result<int64_t>(OpKind::kScatterAdd, ir::DimAttrs{0}, {x, i64({1, 3}, {1, 1, 0}), i64({1, 3}, {10, 20, 30})}) ==
        I{0, 1, 32, 13, 24, 5});
  CHECK(result<int64_t>(OpKind::kIndexAdd, ir::DimAttrs{0}, {x, i64({2}, {1, 1}), x}) == I{0, 1, 2, 6, 9, 12});
  CHECK(result<float>(OpKind::kEmbedding, ir::EmbeddingAttrs{}, {f32({2, 2}, {1, 2, 3, 4}), i64({2}, {1, 0})}) ==
        F{3, 4, 1, 2});
  CHECK(result<int64_t>(OpKind::kCat, ir::DimAttrs{1}, {x, i64({2, 1}, {8, 9})}) == I{0, 1, 2, 8, 3, 4, 5, 9});
  CHECK(result<int64_t>(OpKind::kPad, ir::PadAttrs{{0, -1}, {1, 1}, -5}, {x}) == I{1, 2, -5, 4, 5, -5, -5, -5, -5});
  CHECK_FALSE(evaluate(OpKind::kIndexSelect, ir::DimAttrs{1}, {x, i64({1}, {3})}));
}

TEST_CASE("what the evaluator does not know stays") {
  CHECK_FALSE(evaluate(OpKind::kLinear, ir::NoAttrs{}, {f32({1, 1}, {1}), f32({1, 1}, {1})}));
  CHECK_FALSE(evaluate(OpKind::kAdd, ir::NoAttrs{}, {f32({1}, {1}), i64({1}, {1})}));
}

TEST_CASE("folding keeps inputs, parameters and effects, and is done after one pass") {
  auto graph = ir::parse_graph(R"(graph {
    %x = input "x" : f32[4, 3]
    %unread = input "unread" : i64[4]
    %w = parameter ["w"] : f32[3]
    %mean = buffer ["bn.mean"] : f32[3]
    %var = buffer ["bn.var"] : f32[3]
    %two = constant : f32[] data [2.0]
    %four = mul(%two, %two)
    %y, %m, %r = batch_norm(%x, %w, %w, %mean, %var)
    %z = mul(%x, %four)
    output "z" = %z
  })",
                               "t.pir");
  REQUIRE(graph.ok());
  ir::Graph folded = fold(*graph);
  CHECK(folded.inputs().size() == 2);
  CHECK(folded.parameters().size() == 1);
  CHECK(folded.buffers().size() == 2);
  CHECK(folded.num_ops() == 2);  // batch_norm updates its buffers
  CHECK(folded.constants().size() == 1);
  CHECK(ir::verify(folded).ok());
  CHECK(ir::print(fold(folded)) == ir::print(folded));
}

TEST_CASE("a parameter that is folded away has a gradient of zeros where PyTorch gives it one") {
  const auto folded = [](const std::string& read) {
    auto graph = ir::parse_graph(R"(graph {
    %x = input "x" : f32[4]
    %w = parameter ["w"] : f32[3]
    %m = sum(%x) {dims=[0], keepdim=false}
    %d = )" + read + R"( {dim=0, start=0, end=0, step=1}
    %s = sum(%d) {dims=[0], keepdim=false}
    %y = add(%m, %s)
    output "y" = %y
  })",
                                 "t.pir");
    REQUIRE(graph.ok());
    return ir::print(fold(*graph));
  };
  CHECK(folded("slice(%w)").find("where(") != std::string::npos);
  CHECK(folded("slice(%x)").find("where(") == std::string::npos);
}

// Programs of pieces of different sizes differ in shapes alone.
TEST_CASE("what stays a view does not hang on the batch") {
  const auto folded = [](int64_t batch) {
    const std::string b = std::to_string(batch), rows = std::to_string(4 * batch);
    const auto graph = ir::parse_graph(
        "graph {\n"
        "  %x = input \"x\" : f32[" +
            b +
            ", 4]\n"
            "  %flags = input \"flags\" : i64[" +
            b +
            ", 2]\n"
            "  %index = input \"index\" : i64[" +
            rows +
            ", 1]\n"
            "  %row = constant : f32[4] data [1.0, 2.0, 3.0, 4.0]\n"
            "  %pair = constant : i64[2] data [0, 1]\n"
            "  %zeros = fill() {shape=[" +
            rows +
            ", 4], value=0, to=f32}\n"
            "  %ones = fill() {shape=[" +
            rows +
            ", 1], value=1, to=f32}\n"
            "  %table = expand(%row) {shape=[" +
            b +
            ", 4]}\n"
            "  %pairs = expand(%pair) {shape=[" +
            b +
            ", 2]}\n"
            "  %spread = scatter(%zeros, %index, %ones) {dim=1}\n"
            "  %y = add(%x, %table)\n"
            "  %z = mul(%flags, %pairs)\n"
            "  output \"spread\" = %spread\n  output \"y\" = %y\n  output \"z\" = %z\n}",
        "t.pir");
    REQUIRE(graph.ok());
    return fold(*graph);
  };
  const ir::Graph reference = folded(64);  // zeros of 4096 bytes, pairs of 1024
  for (int64_t batch : {1, 2, 16, 65, 1000}) {
    const ir::Graph other = folded(batch);
    INFO(ir::print(other));
    REQUIRE(other.num_ops() == reference.num_ops());
    REQUIRE(other.num_values() == reference.num_values());
    CHECK(other.constants().size() == reference.constants().size());
    for (size_t i = 0; i < reference.num_ops(); ++i)
      CHECK(other.op(ir::OpId(i)).kind == reference.op(ir::OpId(i)).kind);
  }
}

namespace {

// The sine of places times frequencies, [places, width], for each of `batch` samples where it is above 0.
ir::Graph of_table(int64_t places, int64_t width, int64_t batch) {
  const std::string p = std::to_string(places), w = std::to_string(width), b = std::to_string(batch);
  const std::string table = batch > 0 ? "%each" : "%wave", shape = batch > 0 ? b + ", " + p + ", " + w : p + ", " + w;
  std::string numbers;
  for (int64_t i = 0; i < std::max(places, width); ++i) numbers += (i > 0 ? ", " : "") + std::to_string(i) + ".5";
  const auto first = [&](int64_t count) {
    size_t end = 0;
    for (int64_t i = 0; i < count; ++i) end = numbers.find(", ", end + 1);
    return end == std::string::npos ? numbers : numbers.substr(0, end);
  };
  auto graph =
      ir::parse_graph("graph {\n  %x = input \"x\" : f32[" + shape + "]\n  %place = constant : f32[" + p +
                          ", 1] data [" + first(places) + "]\n  %width = constant : f32[" + w + "] data [" +
                          first(width) + "]\n  %angle = mul(%place, %width)\n  %wave = sin(%angle)\n" +
                          (batch > 0 ? "  %wide = expand(%wave) {shape=[" + shape + "]}\n  %each = neg(%wide)\n" : "") +
                          "  %y = add(%x, " + table + ")\n  output \"y\" = %y\n}",
                      "t.pir");
  if (!graph.ok()) FAIL(graph.error().message);
  return fold(*graph);
}

}  // namespace

TEST_CASE("the run computes a large table of floats, whatever the batch") {
  CHECK(of_table(30, 40, 0).num_ops() == 1);
  const ir::Graph large = of_table(600, 500, 0);
  CHECK(large.num_ops() == 3);
  for (const ir::Constant& constant : large.constants()) CHECK(large.type(constant.value).bytes() < 4096);
  for (const auto& [places, width, ops] : {std::tuple{600, 500, 1}, {200, 500, 1}})
    for (int64_t batch : {2, 3, 8}) CHECK(of_table(places, width, batch).num_ops() == static_cast<size_t>(ops));
}

TEST_CASE("a table is made where it is read, as any constant is") {
  std::vector<float> places(600), widths(500);
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<float>(i);
  for (size_t i = 0; i < widths.size(); ++i) widths[i] = 1.0F / static_cast<float>(i + 1);
  const auto sine = [&](size_t rows) {
    const ConstantTensor place =
        f32({static_cast<int64_t>(rows), 1}, {places.begin(), places.begin() + static_cast<int64_t>(rows)});
    const ConstantTensor angle = (*evaluate(OpKind::kMul, {}, {place, f32({500}, widths)}))[0];
    return (*evaluate(OpKind::kSin, {}, {angle}))[0];
  };
  const ConstantTensor table = sine(600), some = sine(100);
  CHECK(table.is_table());
  CHECK_FALSE(some.is_table());
  CHECK(same_elements(table, sine(600)));
  CHECK_FALSE(table.has_bytes());
  const F all = numbers<float>(table), part = numbers<float>(some);
  CHECK(std::memcmp(all.data(), part.data(), part.size() * sizeof(float)) == 0);
  CHECK_FALSE(same_elements(table, (*evaluate(OpKind::kCos, {}, {table}))[0]));
}

namespace {

// places [count] + a range of `type`, folded.
ir::Graph of_range(int64_t count, bool may_be_of_batch, DType type) {
  ir::Graph graph;
  ir::GraphBuilder b(graph, graph.intern_scope("m"), graph.provenance().model({"arange", "m", ""}));
  const ir::ValueId x = graph.add_input("x", {type, {count}}, false);
  ir::ValueId range = b.range(count, {7, -3, may_be_of_batch});
  range = b.add1(OpKind::kMul, {range, b.constant_i64({}, {2})});
  if (type != DType::kI64) range = b.add1(OpKind::kCast, {range}, ir::CastAttrs{type});
  graph.outputs.push_back({"y", b.add1(OpKind::kAdd, {x, range})});
  return fold(graph);
}
int64_t bytes_of_constants(const ir::Graph& graph) {
  int64_t bytes = 0;
  for (const ir::Constant& constant : graph.constants()) bytes += static_cast<int64_t>(constant.source.data->size());
  return bytes;
}

}  // namespace

TEST_CASE("the run counts what is long, unless its length may be the batch's") {
  for (const DType type : {DType::kI64, DType::kF32}) {
    const ir::Graph few = of_range(1000, false, type), many = of_range(100000, false, type);
    CHECK(few.num_ops() == 1);
    CHECK(bytes_of_constants(few) == 1000 * dtype_bytes(type));
    CHECK(many.num_ops() > 1);
    CHECK(bytes_of_constants(many) < 100);
    CHECK(of_range(100000, true, type).num_ops() == 1);
  }
  // Longer than what is written out.
  CHECK(bytes_of_constants(of_range(int64_t{1} << 29, true, DType::kI64)) < 100);
}

TEST_CASE("a few elements of what is large are made without the others") {
  const ConstantTensor row = i64({1, 40000}, [] {
    I numbers;
    for (int64_t i = 0; i < 40000; ++i) numbers.push_back(7 - 2 * i);
    return numbers;
  }());
  const ConstantTensor wide = (*evaluate(OpKind::kExpand, ir::ExpandAttrs{{30000, 40000}}, {row}))[0];  // 9.6 GB
  const ConstantTensor half = (*evaluate(OpKind::kDiv, {}, {wide, i64({}, {4})}))[0];
  const ConstantTensor some = (*evaluate(OpKind::kSlice, ir::SliceAttrs{1, 0, 4, 1}, {half}))[0];
  const ConstantTensor few = (*evaluate(OpKind::kSlice, ir::SliceAttrs{0, 0, 1, 1}, {some}))[0];
  CHECK(numbers<int64_t>(few) == I{1, 1, 0, 0});
  const ConstantTensor last = (*evaluate(OpKind::kSlice, ir::SliceAttrs{1, 39998, 40000, 1}, {half}))[0];
  CHECK(result<int64_t>(OpKind::kSlice, ir::SliceAttrs{0, 0, 1, 1}, {last}) == I{-19998, -19998});
  const ConstantTensor small = (*evaluate(OpKind::kLt, {}, {half, i64({}, {0})}))[0];
  const ConstantTensor signs = (*evaluate(OpKind::kSlice, ir::SliceAttrs{1, 2, 6, 1}, {small}))[0];
  CHECK(result<uint8_t>(OpKind::kSlice, ir::SliceAttrs{0, 5, 6, 1}, {signs}) == B{0, 0, 1, 1});
}

TEST_CASE("the run makes a large mask that no attention takes, whatever the batch") {
  const auto made = [](int64_t places, int64_t batch) {
    const std::string p = std::to_string(places);
    std::string numbers = "0";
    for (int64_t i = 1; i < places; ++i) numbers += ", " + std::to_string(i);
    auto graph = ir::parse_graph(
        "graph {\n  %x = input \"x\" : bool[" + std::to_string(batch) + ", " + p + ", " + p +
            "]\n  %row = constant : i64[" + p + ", 1] data [" + numbers + "]\n  %column = constant : i64[" + p +
            "] data [" + numbers + "]\n  %lower = le(%column, %row)\n  %wide = expand(%lower) {shape=[" +
            std::to_string(batch) + ", " + p + ", " + p + "]}\n  %y = logical_and(%x, %wide)\n  output \"y\" = %y\n}",
        "t.pir");
    if (!graph.ok()) FAIL(graph.error().message);
    return fold(*graph);
  };
  for (const int64_t batch : {1, 2, 3}) {
    CHECK(bytes_of_constants(made(300, batch)) == 300 * 300);
    CHECK(bytes_of_constants(made(1100, batch)) == 2 * 1100 * 8);
    CHECK(made(1100, batch).num_ops() == 3);
  }
}

TEST_CASE("the numbers of a range, however they are held") {
  for (const int64_t count : {5, 100000}) {
    ir::Graph graph;
    ir::GraphBuilder b(graph, graph.intern_scope("m"), graph.provenance().model({"arange", "m", ""}));
    const ConstantTensor range = *constant_of(graph, b.range(count, {7, -3, false}));
    CHECK(range.is_counted() == (count > 1000));
    const I all = numbers<int64_t>(range);
    REQUIRE(static_cast<int64_t>(all.size()) == count);
    bool right = true;
    for (int64_t i = 0; i < count; ++i) right = right && all[static_cast<size_t>(i)] == 7 - 3 * i;
    CHECK(right);
  }
}

}  // namespace piper::frontend
