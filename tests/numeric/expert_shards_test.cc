// partition_experts against the same layer whole: D ranks, each with tokens of its own, run the graph of one rank in
// step and exchange what their all_to_all ops send. Loss of every rank, gradients of experts (on their owner) and of
// everything else (summed over ranks) must be those of the unsharded layer. f64; only sums over tokens and experts are
// taken in another order: 1e-12.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "compiler/autodiff/autodiff.h"
#include "compiler/ir/graph.h"
#include "compiler/passes/partition_experts.h"
#include "tests/numeric/interpreter.h"

namespace {

using namespace piper;
using numeric::Interpreter;
using numeric::Tensor;

constexpr double kTolerance = 1e-12;

ir::ChunkedGraph parse(const std::string& text) {
  auto graph = ir::parse_graph("graph {\n" + text + "}\n", "layer.pir");
  INFO((graph.ok() ? "" : graph.error().message));
  REQUIRE(graph.ok());
  ir::ChunkedGraph chunked;
  chunked.graph = std::move(graph).value();
  uint32_t last = 0;
  for (size_t i = 0; i < chunked.graph.num_ops(); ++i) {
    ir::ChunkId& chunk = chunked.graph.op(ir::OpId(i)).chunk;
    if (!chunk.valid()) chunk = ir::ChunkId(0);
    last = std::max<uint32_t>(last, chunk.index);
  }
  for (uint32_t c = 0; c <= last; ++c) {
    ir::Chunk chunk;
    chunk.tags = {{"R", static_cast<int32_t>(c)}};
    chunk.name = "R" + std::to_string(c);
    chunked.chunks.push_back(std::move(chunk));
  }
  return chunked;
}

// Numbers in [-1, 1) that depend on the name and the rank alone.
void fill(Tensor& tensor, const std::string& name, int rank) {
  std::seed_seq seed(name.begin(), name.end());
  std::mt19937_64 random(seed);
  random.discard(static_cast<unsigned long long>(1000 * rank));
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (int64_t i = 0; i < tensor.type.elements(); ++i) tensor.set(i, uniform(random));
}

struct Run {
  std::vector<double> losses;                            // [rank]
  std::map<std::string, std::vector<double>> gradients;  // summed over ranks; of experts put together
  std::map<std::string, std::vector<double>> outputs;    // of rank 1
  int64_t dropped = 0;                                   // on all ranks
};

// Rows beyond the counts do not arrive: nothing may come of what lies there.
void exchange(std::vector<std::unique_ptr<Interpreter>>& ranks, const ir::Op& op) {
  std::vector<Tensor> sent, counts, expected;
  for (auto& rank : ranks) {
    sent.push_back(rank->value(op.operands[0]));
    if (op.operands.size() == 1) continue;
    counts.push_back(rank->value(op.operands[1]));
    expected.push_back(rank->value(op.operands[2]));
  }
  const size_t devices = ranks.size();
  REQUIRE(sent[0].type.shape[0] == static_cast<int64_t>(devices));
  const int64_t part = sent[0].type.elements() / static_cast<int64_t>(devices);
  for (size_t to = 0; to < devices; ++to)
    for (size_t from = 0; from < devices; ++from) {
      int64_t travel = part;
      if (!counts.empty()) {
        CHECK(counts[from].at(static_cast<int64_t>(to)) == expected[to].at(static_cast<int64_t>(from)));
        travel = static_cast<int64_t>(counts[from].at(static_cast<int64_t>(to))) * (part / sent[0].type.shape[1]);
      }
      Tensor& received = ranks[to]->received(op.results[0]);
      for (int64_t k = 0; k < part; ++k)
        received.set(static_cast<int64_t>(from) * part + k,
                     k < travel ? sent[from].at(static_cast<int64_t>(to) * part + k) : std::nan(""));
    }
}

// Ranks run op by op; parameters of the whole layer are the same on all of them.
Run run_ranks(const ir::Graph& graph, int devices) {
  std::vector<std::unique_ptr<Interpreter>> ranks;
  for (int r = 0; r < devices; ++r) {
    auto made = Interpreter::make(graph);
    INFO((made.ok() ? "" : made.error().message));
    REQUIRE(made.ok());
    ranks.push_back(std::move(made).value());
    for (const ir::Input& input : graph.inputs()) fill(ranks.back()->source(input.value), input.name, r);
    for (const ir::Parameter& p : graph.parameters()) {
      Tensor whole{p.whole(graph.type(p.value)), {}};
      whole.bytes.resize(static_cast<size_t>(whole.type.bytes()));
      fill(whole, p.names[0], 0);
      Tensor& own = ranks.back()->source(p.value);
      const int64_t first = p.shards > 1 ? r * own.type.elements() : 0;
      for (int64_t i = 0; i < own.type.elements(); ++i) own.set(i, whole.at(first + i));
    }
  }
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    for (auto& rank : ranks) rank->run(i, i + 1);
    const ir::Op& op = graph.op(ir::OpId(i));
    if (op.kind != ir::OpKind::kAllToAll) continue;
    exchange(ranks, op);
  }
  Run run;
  for (auto& rank : ranks) {
    run.losses.push_back(rank->value(graph.loss).at(0));
    for (ir::ValueId number : graph.dropped) run.dropped += static_cast<int64_t>(rank->value(number).at(0));
  }
  for (const ir::Graph::Output& output : graph.outputs) {
    const Tensor value = ranks[1]->value(output.value);
    for (int64_t i = 0; i < value.type.elements(); ++i) run.outputs[output.name].push_back(value.at(i));
  }
  for (const ir::Parameter& p : graph.parameters()) {
    std::vector<double>& sum = run.gradients[p.names[0]];
    sum.assign(static_cast<size_t>(p.whole(graph.type(p.value)).elements()), 0);
    for (size_t r = 0; r < ranks.size(); ++r) {
      const Tensor* gradient = ranks[r]->gradient(p.value);
      if (gradient == nullptr) continue;
      const int64_t first = p.shards > 1 ? static_cast<int64_t>(r) * gradient->type.elements() : 0;
      for (int64_t i = 0; i < gradient->type.elements(); ++i) sum[static_cast<size_t>(first + i)] += gradient->at(i);
    }
  }
  return run;
}

void check_close(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  double worst = 0, largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    worst = std::max(worst, std::abs(got[i] - want[i]) / std::max(1.0, std::abs(want[i])));
    largest = std::max(largest, std::abs(want[i]));
  }
  CHECK(worst <= kTolerance);
  CHECK(largest > 1e-3);  // something was compared
}

// What autodiff and the DAG rely on.
void check_chunks(const ir::ChunkedGraph& chunked) {
  const ir::Graph& graph = chunked.graph;
  std::vector<std::pair<int, int>> ops(chunked.chunks.size());  // forward, backward
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    const bool backward = op.phase == ir::Phase::kBackward;
    INFO(ir::op_name(op.kind) << " in " << chunked.chunks[op.chunk.index].name);
    if (op.kind != ir::OpKind::kAccumulateGrad)
      (backward ? ops[op.chunk.index].second : ops[op.chunk.index].first) += 1;
    CHECK((op.kind == ir::OpKind::kAllToAll) == chunked.chunks[op.chunk.index].exchange);
    for (ir::ValueId v : op.operands) {
      if (!v.valid() || graph.value(v).kind != ir::ValueKind::kOpResult) continue;
      const ir::Op& producer = graph.op(graph.value(v).producer);
      if (producer.phase == ir::Phase::kBackward) CHECK_FALSE(producer.chunk < op.chunk);
      else if (!backward) CHECK_FALSE(op.chunk < producer.chunk);
    }
  }
  std::set<std::string> names;
  for (size_t c = 0; c < chunked.chunks.size(); ++c) {
    CHECK(names.insert(chunked.chunks[c].name).second);
    if (!chunked.chunks[c].exchange) continue;
    CHECK(ops[c].first == 1);
    CHECK(ops[c].second <= 1);
  }
}

struct Expected {
  std::set<std::string> cut;  // parameters
  int exchanges = 0;          // all_to_all ops of the forward
};

void compare(const std::string& text, int devices, const Expected& expected,
             std::optional<ir::RowBound> bound = std::nullopt) {
  kernels::initialise_process();
  kernels::enter_worker_thread(1);
  diag::Diagnostics diags;
  ir::ChunkedGraph whole = parse(text), cut = parse(text);
  passes::ShardedChunks shard;
  shard.shard.bound = bound;
  shard.shard.groups.emplace_back();
  for (int d = 0; d < devices; ++d) shard.shard.groups[0].push_back(d);
  std::set<uint32_t> sharded;  // all chunks that hold an op of three axes' weights
  for (size_t i = 0; i < cut.graph.num_ops(); ++i)
    for (ir::ValueId v : cut.graph.op(ir::OpId(i)).operands)
      if (v.valid() && expected.cut.count(cut.graph.value(v).name))
        sharded.insert(cut.graph.op(ir::OpId(i)).chunk.index);
  for (uint32_t c : sharded) shard.chunks.emplace_back(c);
  // Every rank bounds its own rows, in a group of one device as in others.
  if (bound) {
    passes::ShardedChunks alone = shard;
    alone.shard.groups = {{0}};
    REQUIRE(passes::partition_experts(whole, {alone}, diags).ok());
    CHECK(whole.chunks.size() == parse(text).chunks.size());
    CHECK(ir::verify(whole.graph).ok());
  }
  const auto parents = passes::partition_experts(cut, {shard}, diags);
  INFO(diags.render_text(false));
  REQUIRE(parents.ok());
  REQUIRE(parents->size() == cut.chunks.size());
  std::set<std::string> cut_names;
  for (const ir::Parameter& p : cut.graph.parameters())
    if (p.shards > 1) cut_names.insert(p.names[0]);
  CHECK(cut_names == expected.cut);
  int exchanges = 0;
  for (size_t i = 0; i < cut.graph.num_ops(); ++i)
    exchanges += cut.graph.op(ir::OpId(i)).kind == ir::OpKind::kAllToAll ? 1 : 0;
  CHECK(exchanges == expected.exchanges);
  REQUIRE(autodiff::differentiate(whole.graph, diags).ok());
  REQUIRE(autodiff::differentiate(cut.graph, diags).ok());
  const Status valid = ir::verify(cut.graph);
  INFO((valid.ok() ? "" : valid.error().message));
  REQUIRE(valid.ok());
  check_chunks(cut);
  const Run want = run_ranks(whole.graph, devices), got = run_ranks(cut.graph, devices);
  check_close(got.losses, want.losses);
  CHECK(got.dropped == want.dropped);
  CHECK((got.dropped > 0) == (bound && !bound->strict));
  for (const auto& [name, values] : want.outputs) check_close(got.outputs.at(name), values);
  for (const auto& [name, gradient] : want.gradients) {
    INFO("gradient of " << name);
    check_close(got.gradients.at(name), gradient);
  }
}

// 6 tokens of width 3, 4 experts 3 -> 5 -> 3.
const char* kHead = R"(
  %x = input "x" : f64[6, 3]
  %router = parameter ["router"] : f64[4, 3]
  %logits = linear(%x, %router, none)
  %gate = softmax(%logits) {dim=1}
)";
const char* kTail = R"(
  %square = mul(%y, %x)
  %more = add(%square, %y)
  %squared = mul(%more, %more)
  %s = sum(%squared) {dims=[0, 1], keepdim=false}
  output "y" = %y
  loss %s
)";

// einsum("tc,ech->eth"), einsum("eth,ehc,te->tc") as they are imported: the first is one product over all experts'
// columns.
const char* kDense = R"(
  %w1 = parameter ["w1"] : f64[4, 3, 5]
  %w2 = parameter ["w2"] : f64[4, 5, 3]
  %p = permute(%w1) {dims=[1, 0, 2]}
  %columns = reshape(%p) {shape=[3, 20]}
  %h0 = matmul(%x, %columns)
  %h1 = reshape(%h0) {shape=[6, 4, 5]}
  %h = permute(%h1) {dims=[1, 0, 2]}
  %a = gelu(%h) {approximate="none"}
  %z = matmul(%a, %w2)
  %zt = permute(%z) {dims=[1, 2, 0]}
  %g = reshape(%gate) {shape=[6, 4, 1]}
  %weighed = matmul(%zt, %g)
  %y = reshape(%weighed) {shape=[6, 3]}
)";

TEST_CASE("every expert on every token, weighed and summed by a product") {
  for (int devices : {2, 4}) {
    DYNAMIC_SECTION(devices << " devices") { compare(std::string(kHead) + kDense + kTail, devices, {{"w1", "w2"}, 3}); }
  }
}

TEST_CASE("tokens repeated for every expert travel once, biases belong to their experts") {
  compare(std::string(kHead) + R"(
    %w1 = parameter ["w1"] : f64[4, 3, 5]
    %b1 = parameter ["b1"] : f64[4, 5]
    %w2 = parameter ["w2"] : f64[4, 5, 3]
    %scale = parameter ["scale"] : f64[4, 1, 3]
    %e = expand(%x) {shape=[4, 6, 3]}
    %flat = reshape(%e) {shape=[24, 3]}
    %each = reshape(%flat) {shape=[4, 6, 3]}
    %h = matmul(%each, %w1)
    %bias = reshape(%b1) {shape=[4, 1, 5]}
    %hb = add(%h, %bias)
    %a = silu(%hb)
    %z = matmul(%a, %w2)
    %zs = mul(%z, %scale)
    %gt = permute(%gate) {dims=[1, 0]}
    %g = reshape(%gt) {shape=[4, 6, 1]}
    %weighed = mul(%zs, %g)
    %y = sum(%weighed) {dims=[0], keepdim=false}
  )" + kTail,
          2, {{"w1", "b1", "w2", "scale"}, 3});
}

TEST_CASE("gated experts as one product over hidden units of all experts") {
  compare(std::string(kHead) + R"(
    %up = parameter ["up"] : f64[4, 3, 10]
    %down = parameter ["down"] : f64[4, 5, 3]
    %p = permute(%up) {dims=[1, 0, 2]}
    %columns = reshape(%p) {shape=[3, 40]}
    %h0 = matmul(%x, %columns)
    %h = reshape(%h0) {shape=[6, 4, 10]}
    %left = slice(%h) {dim=2, start=0, end=5, step=1}
    %right = slice(%h) {dim=2, start=5, end=10, step=1}
    %act = silu(%left)
    %a = mul(%act, %right)
    %g = reshape(%gate) {shape=[6, 4, 1]}
    %ag = mul(%a, %g)
    %rows = reshape(%ag) {shape=[6, 20]}
    %down_rows = reshape(%down) {shape=[20, 3]}
    %y = matmul(%rows, %down_rows)
  )" + kTail,
          2, {{"up", "down"}, 3});
}

TEST_CASE("weights as those of a linear layer, and a norm inside of the experts") {
  compare(std::string(kHead) + R"(
    %w1 = parameter ["w1"] : f64[4, 5, 3]
    %w2 = parameter ["w2"] : f64[4, 5, 3]
    %norm = parameter ["norm"] : f64[5]
    %rows1 = reshape(%w1) {shape=[20, 3]}
    %h0 = linear(%x, %rows1, none)
    %h1 = reshape(%h0) {shape=[6, 4, 5]}
    %n, %mean, %rstd = layer_norm(%h1, %norm, none) {axes=1, eps=0.1}
    %h = permute(%n) {dims=[1, 0, 2]}
    %z = matmul(%h, %w2)
    %gt = permute(%gate) {dims=[1, 0]}
    %g = reshape(%gt) {shape=[4, 6, 1]}
    %weighed = mul(%z, %g)
    %y = sum(%weighed) {dims=[0], keepdim=false}
  )" + kTail,
          4, {{"w1", "w2"}, 3});
}

// Dispatch and combine are matrices that mix tokens: whole rows travel to the experts and back.
const char* kCapacity = R"(
  %w1 = parameter ["w1"] : f64[4, 3, 5]
  %b1 = parameter ["b1"] : f64[4, 5]
  %w2 = parameter ["w2"] : f64[4, 5, 3]
  %slots = parameter ["slots"] : f64[2, 3]
  %slot_logits = linear(%x, %slots, none)
  %slot = softmax(%slot_logits) {dim=1}
  %g1 = reshape(%gate) {shape=[6, 4, 1]}
  %s1 = reshape(%slot) {shape=[6, 1, 2]}
  %combine = mul(%g1, %s1)
  %flat = reshape(%combine) {shape=[6, 8]}
  %dispatch = permute(%flat) {dims=[1, 0]}
  %sent = matmul(%dispatch, %x)
  %rows = reshape(%sent) {shape=[4, 2, 3]}
  %h = matmul(%rows, %w1)
  %bias = reshape(%b1) {shape=[4, 1, 5]}
  %hb = add(%h, %bias)
  %a = gelu(%hb) {approximate="none"}
  %z = matmul(%a, %w2)
  %zr = reshape(%z) {shape=[8, 3]}
  %y = matmul(%flat, %zr)
)";

TEST_CASE("experts with a capacity") {
  for (int devices : {2, 4}) {
    DYNAMIC_SECTION(devices << " devices") {
      compare(std::string(kHead) + kCapacity + kTail, devices, {{"w1", "b1", "w2"}, 2});
    }
  }
}

TEST_CASE("experts with a capacity for each group of tokens") {
  compare(R"(
    %x = input "x" : f64[2, 6, 3]
    %assign = parameter ["assign"] : f64[8, 6]
    %w1 = parameter ["w1"] : f64[4, 3, 5]
    %w2 = parameter ["w2"] : f64[4, 5, 3]
    %sent = matmul(%assign, %x)
    %split = reshape(%sent) {shape=[2, 4, 2, 3]}
    %rows = permute(%split) {dims=[1, 0, 2, 3]}
    %u1 = reshape(%w1) {shape=[4, 1, 3, 5]}
    %u2 = reshape(%w2) {shape=[4, 1, 5, 3]}
    %h = matmul(%rows, %u1)
    %a = tanh(%h)
    %z = matmul(%a, %u2)
    %back = permute(%z) {dims=[1, 0, 2, 3]}
    %zr = reshape(%back) {shape=[2, 8, 3]}
    %collect = permute(%assign) {dims=[1, 0]}
    %y = matmul(%collect, %zr)
    %yy = mul(%y, %x)
    %s = sum(%yy) {dims=[0, 1, 2], keepdim=false}
    output "y" = %y
    loss %s
  )",
          2, {{"w1", "w2"}, 2});
}

// Rows one after another, expert by expert; how many each has is known when it runs.
const char* kOrder = R"(
  %weight, %chosen = topk(%gate) {dim=1, k=2}
  %ids = reshape(%chosen) {shape=[12]}
  %order, %position, %counts, %dropped = expert_order(%ids) {experts=4, segments=1, capacity=12}
  %rows = take_rows(%x, %order, %position) {repeat=2}
)";
const char* kBack = R"(
  %back = take_rows(%z, %position, %order) {repeat=1}
  %each = reshape(%back) {shape=[6, 2, 3]}
  %g = reshape(%weight) {shape=[6, 2, 1]}
  %weighed = mul(%each, %g)
  %y = sum(%weighed) {dims=[1], keepdim=false}
)";

std::string biased_experts() {
  return std::string(kHead) + kOrder + R"(
    %w1 = parameter ["w1"] : f64[4, 5, 3]
    %b1 = parameter ["b1"] : f64[4, 5]
    %w2 = parameter ["w2"] : f64[4, 5, 3]
    %turned = permute(%w1) {dims=[0, 2, 1]}
    %h = grouped_matmul(%rows, %turned, %counts) {transposed=false}
    %bias = grouped_expand(%b1, %counts) {rows=12}
    %hb = add(%h, %bias)
    %a = silu(%hb)
    %z = grouped_matmul(%a, %w2, %counts) {transposed=false}
  )" + kBack +
         kTail;
}

TEST_CASE("rows in the order of their experts") {
  for (int devices : {2, 4}) {
    DYNAMIC_SECTION(devices << " devices") { compare(biased_experts(), devices, {{"w1", "b1", "w2"}, 3}); }
  }
}

TEST_CASE("rows in the order of their experts, each of which takes some") {
  for (int devices : {2, 4})
    for (double factor : {0.3, 0.5, 1.0}) {  // 1, 2 and 3 of 12 rows
      DYNAMIC_SECTION(devices << " devices, factor " << factor) {
        compare(biased_experts(), devices, {{"w1", "b1", "w2"}, 3}, ir::RowBound{factor, false, {}});
      }
    }
  // What cannot be exceeded drops nothing, strict or not.
  compare(biased_experts(), 2, {{"w1", "b1", "w2"}, 3}, ir::RowBound{4, true, {}});
}

// Padding enters the gradient of a parameter that all rows share, so whole parts travel.
std::string experts_with_shared_parameters() {
  return std::string(kHead) + kOrder + R"(
    %w1 = parameter ["w1"] : f64[4, 3, 6]
    %w2 = parameter ["w2"] : f64[4, 3, 3]
    %scale = parameter ["scale"] : f64[3]
    %shift = parameter ["shift"] : f64[3]
    %scaled = mul(%rows, %scale)
    %h = grouped_matmul(%scaled, %w1, %counts) {transposed=false}
    %left = slice(%h) {dim=1, start=0, end=3, step=1}
    %right = slice(%h) {dim=1, start=3, end=6, step=1}
    %act = silu(%left)
    %a = mul(%act, %right)
    %m = grouped_matmul(%a, %w2, %counts) {transposed=true}
    %z = add(%m, %shift)
  )" + kBack +
         kTail;
}

TEST_CASE("rows of experts that meet a shared parameter") {
  compare(experts_with_shared_parameters(), 2, {{"w1", "w2"}, 3});
}

TEST_CASE("some rows of experts meet a shared parameter") {
  compare(experts_with_shared_parameters(), 2, {{"w1", "w2"}, 3}, ir::RowBound{0.5, false, {}});
}

// An op that experts cannot do on parts makes tokens return and travel again.
TEST_CASE("what mixes experts in between stands outside") {
  compare(std::string(kHead) + R"(
    %w1 = parameter ["w1"] : f64[4, 3, 5]
    %w2 = parameter ["w2"] : f64[4, 5, 3]
    %e = expand(%x) {shape=[4, 6, 3]}
    %h = matmul(%e, %w1)
    %mix = softmax(%h) {dim=0}
    %z = matmul(%mix, %w2)
    %gt = permute(%gate) {dims=[1, 0]}
    %g = reshape(%gt) {shape=[4, 6, 1]}
    %weighed = mul(%z, %g)
    %y = sum(%weighed) {dims=[0], keepdim=false}
  )" + kTail,
          2, {{"w1", "w2"}, 5});
}

// Two layers in one chunk, the second fed by the first; a mask without parameters is read on both sides.
TEST_CASE("several layers in one chunk") {
  const std::string second = R"(
    %v1 = parameter ["v1"] : f64[4, 3, 5]
    %v2 = parameter ["v2"] : f64[4, 5, 3]
    %mask = fill() {shape=[6, 3], value=0.5, to=f64}
    %first = mul(%weighed2, %mask)
    %e = expand(%first) {shape=[4, 6, 3]}
    %k = matmul(%e, %v1)
    %ka = tanh(%k)
    %l = matmul(%ka, %v2)
    %lm = mul(%l, %mask)
    %sumd = sum(%lm) {dims=[0], keepdim=false}
    %y = add(%sumd, %mask)
  )";
  std::string dense = kDense;
  dense.replace(dense.find("%y = reshape"), 2, "%weighed2");
  compare(std::string(kHead) + dense + second + kTail, 2, {{"w1", "w2", "v1", "v2"}, 5});
}

TEST_CASE("experts in a chunk between others") {
  std::string text = R"(
    %in = input "x" : f64[6, 3]
    %embed = parameter ["embed"] : f64[3, 3]
    %router = parameter ["router"] : f64[4, 3]
    %w1 = parameter ["w1"] : f64[4, 3, 5]
    %w2 = parameter ["w2"] : f64[4, 5, 3]
    %head = parameter ["head"] : f64[3, 3]
    %x = linear(%in, %embed, none) chunk 0
    %logits = linear(%x, %router, none) chunk 1
    %gate = softmax(%logits) {dim=1} chunk 1
    %e = expand(%x) {shape=[4, 6, 3]} chunk 1
    %h = matmul(%e, %w1) chunk 1
    %a = relu(%h) chunk 1
    %z = matmul(%a, %w2) chunk 1
    %zt = permute(%z) {dims=[1, 2, 0]} chunk 1
    %g = reshape(%gate) {shape=[6, 4, 1]} chunk 1
    %weighed = matmul(%zt, %g) chunk 1
    %flat = reshape(%weighed) {shape=[6, 3]} chunk 1
    %res = add(%flat, %x) chunk 1
    %out = linear(%res, %head, none) chunk 2
    %sq = mul(%out, %out) chunk 2
    %s = sum(%sq) {dims=[0, 1], keepdim=false} chunk 2
    output "y" = %out
    loss %s
  )";
  compare(text, 4, {{"w1", "w2"}, 3});
}

}  // namespace
