// What the fold says of attention's masks, made by random operators of the places of queries and keys and of vectors of
// the sample, against their elements, which the evaluator writes out.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "compiler/frontend/fold.h"
#include "schemas/forms/attends.h"
#include "tests/unit/constant_tensor.h"
#include "tests/unit/form_value.h"

namespace piper::frontend {
namespace {

using ir::OpKind;
using ir::ValueId;

template <class T>
std::vector<T> elements(const ConstantTensor& t) {
  std::vector<T> data(static_cast<size_t>(t.type.elements()));
  if (!data.empty()) std::memcpy(data.data(), t.data()->data(), t.data()->size());
  return data;
}

// A value of the graph and its elements.
struct Node {
  ValueId value;
  ConstantTensor bytes;
};

constexpr float kNever = -std::numeric_limits<float>::infinity(), kFinitely = -1e9F;

class Masks {
 public:
  Masks(uint32_t seed, int64_t batch, int64_t queries, int64_t keys)
      : random_(seed), batch_(batch), queries_(queries), keys_(keys), b_(graph, {}, {}) {
    const int64_t heads = 2, dim = 4;
    const ValueId q = graph.add_input("q", {DType::kF32, {batch, heads, queries, dim}}, true);
    const ValueId k = graph.add_input("k", {DType::kF32, {batch, heads, keys, dim}}, true);
    for (const char* name : {"of_query", "of_key", "other"})
      add_input(name, name[3] == 'q' ? queries : keys, DType::kI64, true);
    add_input("kept", keys, DType::kBool, true);
    add_input("alike", keys, DType::kI64, false);
    mask_ = mask();
    const std::vector<ValueId> y =
        b_.add(OpKind::kSdpa, {q, k, k, mask_.value}, ir::SdpaAttrs{below(4) == 0, 0.5, {}}, "y");
    REQUIRE(b_.status().ok());
    graph.outputs.push_back({"y", y[0]});
  }

  // Whether the query attends by the mask's elements.
  std::vector<bool> attends() const {
    const ConstantTensor all =
        (*evaluate(OpKind::kExpand, ir::ExpandAttrs{{batch_, 1, queries_, keys_}}, {mask_.bytes}))[0];
    std::vector<bool> result;
    if (all.type.dtype == DType::kBool)
      for (const uint8_t x : elements<uint8_t>(all)) result.push_back(x != 0);
    else
      for (const float x : elements<float>(all)) result.push_back(x == 0);
    return result;
  }
  bool is_finite() const { return finite_; }

  ir::Graph graph;
  std::map<std::string, ConstantTensor> given;  // by input

 private:
  int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random_); }
  void add_input(const std::string& name, int64_t places, DType dtype, bool batched) {
    const int64_t samples = batched ? batch_ : 1;
    const ir::TensorType type{dtype, {samples, places}};
    std::mt19937 random(static_cast<uint32_t>(name.size()) + 7);
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < type.elements(); ++i)
      numbers.push_back(static_cast<int64_t>(random() % 3) - (dtype == DType::kI64 ? 1 : 0));
    const ConstantTensor bytes = dtype == DType::kI64 ? constant_tensor(dtype, type.shape, numbers)
                                                      : constant_tensor(dtype, type.shape, std::vector<uint8_t>([&] {
                                                                          std::vector<uint8_t> truths;
                                                                          for (const int64_t x : numbers)
                                                                            truths.push_back(x > 0 ? 1 : 0);
                                                                          return truths;
                                                                        }()));
    given.emplace(name, bytes);
    inputs_.emplace(name, Node{graph.add_input(name, type, batched), bytes});
  }
  Node made(OpKind kind, const std::vector<Node>& x, const ir::Attrs& attrs = {}) {
    std::vector<ValueId> values;
    std::vector<ConstantTensor> bytes;
    for (const Node& node : x) {
      values.push_back(node.value);
      bytes.push_back(node.bytes);
    }
    const auto results = evaluate(kind, attrs, bytes);
    REQUIRE(results);
    return {b_.add1(kind, values, attrs), (*results)[0]};
  }
  Node constant(std::vector<int64_t> shape, const std::vector<int64_t>& data) {
    return {b_.constant_i64(shape, data), constant_tensor(DType::kI64, shape, data)};
  }
  Node single(float value) {
    return {b_.scalar(value, DType::kF32), constant_tensor(DType::kF32, {}, std::vector<float>{value})};
  }
  Node along(const Node& vector, bool query) {
    const int64_t samples = vector.bytes.type.shape.size() == 2 ? vector.bytes.type.shape[0] : 1;
    const std::vector<int64_t> shape =
        query ? std::vector<int64_t>{samples, 1, queries_, 1} : std::vector<int64_t>{samples, 1, 1, keys_};
    return made(OpKind::kReshape, {vector}, ir::ReshapeAttrs{shape});
  }
  Node place(bool query) {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < (query ? queries_ : keys_); ++i) places.push_back(i);
    return along(constant({static_cast<int64_t>(places.size())}, places), query);
  }
  Node moved_place() {
    const Node at = place(below(2) != 0), by = constant({}, {below(9) - 4});
    return below(2) ? made(OpKind::kAdd, {at, by}) : made(OpKind::kSub, {by, at});
  }
  Node number() {
    switch (below(8)) {
      case 0: return constant({}, {below(9) - 4});
      case 1: return along(inputs_.at("of_key"), false);
      case 2: return along(inputs_.at("of_query"), true);
      case 3: return along(inputs_.at(below(2) ? "other" : "alike"), false);
      default: return place(below(2) != 0);
    }
  }
  Node integer(int depth) {
    if (depth <= 0 || below(3) == 0) return number();
    switch (below(6)) {
      case 0: return made(OpKind::kAdd, {integer(depth - 1), integer(depth - 1)});
      case 1: return made(OpKind::kSub, {integer(depth - 1), integer(depth - 1)});
      case 2: return made(OpKind::kMul, {integer(depth - 1), constant({}, {below(5) - 2})});
      case 3: return made(OpKind::kDiv, {moved_place(), constant({}, {1 + below(6)})});
      case 4: return made(OpKind::kCast, {predicate(depth - 1)}, ir::CastAttrs{DType::kI64});
      default: return made(OpKind::kWhere, {predicate(depth - 1), integer(depth - 1), integer(depth - 1)});
    }
  }
  Node predicate(int depth) {
    static const OpKind compare[] = {OpKind::kEq, OpKind::kNe, OpKind::kLt, OpKind::kLe, OpKind::kGt, OpKind::kGe};
    if (depth <= 1 || below(3) == 0) return made(compare[below(6)], {integer(depth - 1), integer(depth - 1)});
    switch (below(6)) {
      case 5:
        return made(compare[below(6)], {place(false), made(OpKind::kAdd, {place(true), constant({}, {below(9) - 4})})});
      case 0: return made(OpKind::kLogicalNot, {predicate(depth - 1)});
      case 1: return made(OpKind::kLogicalOr, {predicate(depth - 1), predicate(depth - 1)});
      case 2: return along(inputs_.at("kept"), false);
      case 3: return made(OpKind::kWhere, {predicate(depth - 1), predicate(depth - 1), predicate(depth - 1)});
      default: return made(OpKind::kLogicalAnd, {predicate(depth - 1), predicate(depth - 1)});
    }
  }
  // What models make: causal and a few more conditions.
  Node lower() { return made(OpKind::kLe, {place(false), place(true)}); }
  Node mask() {
    Node p = below(2) ? made(OpKind::kLogicalAnd, {lower(), predicate(3)}) : predicate(4);
    if (below(3) == 0) p = made(OpKind::kExpand, {p}, ir::ExpandAttrs{{batch_, 1, queries_, keys_}});
    if (below(3) != 0) return p;
    finite_ = below(2) != 0;
    const Node never = single(finite_ ? kFinitely : kNever), zero = single(0);
    if (below(2)) return made(OpKind::kWhere, {p, zero, never});
    return made(OpKind::kWhere, {made(OpKind::kLogicalNot, {p}), never, zero});
  }

  std::mt19937 random_;
  int64_t batch_, queries_, keys_;
  ir::GraphBuilder b_;
  std::map<std::string, Node> inputs_;
  Node mask_;
  bool finite_ = false;
};

// A value of the folded graph from what its inputs are given.
ConstantTensor value_of(const ir::Graph& graph, ValueId v, const std::map<std::string, ConstantTensor>& given) {
  if (const auto constant = constant_of(graph, v)) return *constant;
  if (graph.value(v).kind != ir::ValueKind::kOpResult) return given.at(graph.value(v).name);
  const ir::Op& op = graph.op(graph.value(v).producer);
  std::vector<ConstantTensor> operands;
  for (const ValueId operand : op.operands) operands.push_back(value_of(graph, operand, given));
  const auto results = evaluate(op.kind, op.attrs, operands);
  REQUIRE(results);
  return (*results)[0];
}

// For the folded graph's attention: where queries attend, by sample, query and key; nothing where its mask stays.
std::optional<std::vector<bool>> attended(const ir::Graph& graph, const ir::Op& op,
                                          const std::map<std::string, ConstantTensor>& given) {
  const auto& attrs = std::get<ir::SdpaAttrs>(op.attrs);
  const std::vector<int64_t>& q = graph.type(op.operands[0]).shape;
  const int64_t queries = q[2], keys = graph.type(op.operands[1]).shape[2];
  const bool reads = op.operands.size() > 3 && op.operands[3].valid();
  if (attrs.attends.empty() && reads) return std::nullopt;
  form::Attends attends;
  std::vector<int64_t> numbers;
  std::vector<int64_t> shape{1, 1, 0, 0};
  if (reads) {
    const ConstantTensor vectors = value_of(graph, op.operands[3], given);
    shape = vectors.type.shape;
    numbers = elements<int64_t>(vectors);
  }
  if (!attrs.attends.empty()) {
    auto parsed = form::parse_attends(attrs.attends, queries, keys, shape[2], shape[3]);
    REQUIRE(parsed.ok());
    attends = *parsed;
    CHECK(form::attends_text(attends.where, queries, keys) == attrs.attends);
  }
  std::vector<bool> result;
  for (int64_t sample = 0; sample < q[0]; ++sample) {
    const int64_t size = shape[2] * shape[3], first = shape[0] == 1 ? 0 : sample * size;
    const form::At vectors{{}, {numbers.begin() + first, numbers.begin() + first + size}, shape[3]};
    for (int64_t query = 0; query < queries; ++query)
      for (int64_t key = 0; key < keys; ++key) {
        form::At at = vectors;
        at.place = {query, key};
        const bool causal = !attrs.is_causal || key <= query;
        const bool attends_there = causal && (attends.where == nullptr || form::value_in(attends.where, at) != 0);
        result.push_back(attends_there);
        if (attends.where == nullptr) continue;
        const form::Band band = form::band_of(attends);
        const form::KeyRange range = form::keys_of(attends, query, query + 1);
        if (attends_there) {
          CHECK((band.low <= key - query && key - query <= band.high));
          CHECK((range.first <= key && key < range.last));
        } else if (form::is_band(attends)) {
          CHECK((key - query < band.low || band.high < key - query));
        }
      }
  }
  return result;
}

const ir::Op& attention_of(const ir::Graph& graph) { return graph.op(graph.value(graph.outputs[0].value).producer); }

}  // namespace

TEST_CASE("a mask that the fold replaces is the one that its elements say") {
  int64_t stayed = 0, causal = 0, predicates = 0, reading = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    INFO("seed " << seed);
    const int64_t queries = 2 + seed % 7, keys = seed % 5 == 0 ? queries + 3 : queries;
    const Masks masks(seed, 2, queries, keys);
    const auto& given_attrs = std::get<ir::SdpaAttrs>(attention_of(masks.graph).attrs);
    const ir::Graph folded = fold(masks.graph);
    REQUIRE(ir::verify(folded).ok());
    const ir::Op& op = attention_of(folded);
    const auto& attrs = std::get<ir::SdpaAttrs>(op.attrs);
    const std::optional<std::vector<bool>> found = attended(folded, op, masks.given);
    if (!found) {
      ++stayed;
      continue;
    }
    std::vector<bool> expected = masks.attends();
    bool same = true;
    for (size_t i = 0; i < expected.size(); ++i) {
      const int64_t key = static_cast<int64_t>(i) % keys, query = static_cast<int64_t>(i) / keys % queries;
      expected[i] = expected[i] && (!given_attrs.is_causal || key <= query);
      same = same && expected[i] == (*found)[i];
    }
    CHECK(same);
    // A finite number lets a query that attends nowhere attend everywhere.
    if (masks.is_finite())
      for (size_t row = 0; row < expected.size(); row += static_cast<size_t>(keys))
        CHECK(std::find(expected.begin() + static_cast<int64_t>(row),
                        expected.begin() + static_cast<int64_t>(row) + keys,
                        true) != expected.begin() + static_cast<int64_t>(row) + keys);
    causal += attrs.is_causal ? 1 : 0;
    predicates += attrs.attends.empty() ? 0 : 1;
    reading += op.operands.size() > 3 && op.operands[3].valid() ? 1 : 0;
    // As of any other batch.
    const ir::Graph of_three = fold(Masks(seed, 3, queries, keys).graph);
    const auto& again = std::get<ir::SdpaAttrs>(attention_of(of_three).attrs);
    CHECK((again.attends == attrs.attends && again.is_causal == attrs.is_causal));
  }
  CAPTURE(stayed, causal, predicates, reading);
  CHECK(predicates > 1000);
  CHECK(reading > 500);
  CHECK(causal > 20);
}

}  // namespace piper::frontend
