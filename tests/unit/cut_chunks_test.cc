// Cutting model graphs into chunks: regions, joins, copies, levels, and the errors of annotations.
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <map>

#include "compiler/regions/assign_regions.h"
#include "compiler/regions/cut_chunks.h"

namespace piper::passes {
namespace {

using ir::OpKind;
using ir::ValueId;
using strategy::Annotation;

// A transformer in miniature: embedding, a mask made from nothing, `num_blocks` blocks with two
// linears and a residual, a head and a loss on shifted labels.
struct Model {
  ir::Graph graph;
  ir::ProvId prov = graph.provenance().unknown("test");
  ir::GraphBuilder b{graph, ir::ScopeId(), prov};
  int32_t num_parameters = 0;

  void in(const std::string& scope) { b.set_scope(graph.intern_scope(scope)); }
  ValueId weight(std::vector<int64_t> shape) {
    return graph.add_parameter({"p" + std::to_string(num_parameters++)}, {DType::kF32, std::move(shape)}, true, {});
  }
  ValueId linear(ValueId x, int64_t out = 8) { return b.add1(OpKind::kLinear, {x, weight({out, 8})}); }

  explicit Model(int num_blocks = 4, bool experts = false) {
    const ValueId idx = graph.add_input("idx", {DType::kI64, {2, 4}}, true);
    const ValueId labels = graph.add_input("labels", {DType::kI64, {2, 4}}, true);
    in("wte");
    ValueId x = b.add1(OpKind::kEmbedding, {weight({16, 8}), idx}, ir::EmbeddingAttrs{});
    in("");
    const ValueId mask = b.add1(OpKind::kExp, {b.scalar(1, DType::kF32)}, ir::NoAttrs{}, "mask");
    for (int k = 0; k < num_blocks; ++k) {
      const std::string block = "h." + std::to_string(k);
      in(block + ".attn");
      ValueId y = b.add1(OpKind::kMul, {linear(x), mask});
      in(block);
      const ValueId mid = b.add1(OpKind::kAdd, {x, y});
      in(block + (experts ? ".mlp.experts" : ".mlp"));
      y = linear(b.add1(OpKind::kRelu, {linear(mid)}));
      in(block);
      x = b.add1(OpKind::kAdd, {mid, y});
    }
    in("head");
    const ValueId logits = b.reshape(linear(x, 16), {8, 16});
    in("");
    const ValueId targets = b.reshape(b.add1(OpKind::kAdd, {labels, labels}), {8});
    const ValueId loss = b.add1(OpKind::kCrossEntropyLoss, {logits, targets}, ir::CrossEntropyLossAttrs{}, "loss");
    graph.outputs.push_back({"loss", loss});
    graph.loss = loss;
    if (!b.status().ok()) FAIL(b.status().error().message);
  }
};

Annotation starts(const std::string& tag, std::vector<std::string> globs) {
  Annotation a;
  a.tag = tag;
  a.kind = Annotation::Kind::kStarts;
  a.globs = std::move(globs);
  return a;
}
Annotation modules(const std::string& tag, std::vector<std::string> globs) {
  Annotation a = starts(tag, std::move(globs));
  a.kind = Annotation::Kind::kModules;
  return a;
}
Annotation stages(const std::string& tag, int64_t count) {
  Annotation a;
  a.tag = tag;
  a.kind = Annotation::Kind::kStages;
  a.stages = count;
  return a;
}

strategy::Strategy strategy_of(std::vector<Annotation> annotations) {
  strategy::Strategy strategy;
  strategy.annotations = std::move(annotations);
  return strategy;
}
// All ops need a tag: this one, or any ("").
strategy::Strategy needing(const std::string& tag, std::vector<Annotation> annotations) {
  strategy::Strategy strategy = strategy_of(std::move(annotations));
  strategy.needs_tag = tag;
  return strategy;
}

// Every op has a chunk, edges lead to the same or a later chunk, op order is topological, the
// verifier is content and names are unique.
void check_invariants(const ir::ChunkedGraph& cut) {
  const ir::Graph& g = cut.graph;
  std::map<std::string, int> names;
  for (const ir::Chunk& chunk : cut.chunks) CHECK(++names[chunk.name] == 1);
  for (size_t i = 0; i < g.num_ops(); ++i) {
    const ir::Op& op = g.op(ir::OpId(i));
    REQUIRE(op.chunk.valid());
    for (ValueId operand : op.operands) {
      if (!operand.valid() || g.value(operand).kind != ir::ValueKind::kOpResult) continue;
      const ir::OpId producer = g.value(operand).producer;
      CHECK(producer.index < i);
      CHECK(!(op.chunk < g.op(producer).chunk));
    }
  }
  const Status status = ir::verify(g);
  if (!status.ok()) FAIL_CHECK(status.error().message);
}

ir::ChunkedGraph cut_by(Model model, const strategy::Strategy& strategy, std::string* remarks = nullptr) {
  diag::Diagnostics diags;
  auto result = regions::cut_chunks(std::move(model.graph), strategy, diags);
  INFO(diags.render_text(true));
  REQUIRE(result.ok());
  if (remarks != nullptr) *remarks = diags.render_text(true);
  check_invariants(*result);
  return std::move(result).value();
}

ir::ChunkedGraph cut(Model model, const std::vector<Annotation>& annotations, std::string* remarks = nullptr) {
  return cut_by(std::move(model), strategy_of(annotations), remarks);
}

std::string chunk_names(const ir::ChunkedGraph& cut) {
  std::string text;
  for (const ir::Chunk& chunk : cut.chunks) text += (text.empty() ? "" : " ") + chunk.name;
  return text;
}

// Chunk name of the op that makes a value.
std::string chunk_of(const ir::ChunkedGraph& cut, const std::string& value) {
  for (size_t v = 0; v < cut.graph.num_values(); ++v) {
    const ir::Value& candidate = cut.graph.value(ValueId(v));
    if (candidate.name == value && candidate.kind == ir::ValueKind::kOpResult) {
      return cut.chunks[cut.graph.op(candidate.producer).chunk.index].name;
    }
  }
  return "no such value";
}

std::string error_by(Model model, const strategy::Strategy& strategy) {
  diag::Diagnostics diags;
  CHECK(!regions::cut_chunks(std::move(model.graph), strategy, diags).ok());
  return diags.render_text(false);
}
std::string error(Model model, const std::vector<Annotation>& annotations) {
  return error_by(std::move(model), strategy_of(annotations));
}

}  // namespace

TEST_CASE("globs match whole modules") {
  CHECK(glob_matches("*.h.0", "h.0"));
  CHECK(glob_matches("*.h.0", "transformer.h.0"));
  CHECK(!glob_matches("*.h.1", "transformer.h.10"));
  CHECK(!glob_matches("*.h.1", "transformer.h.1.mlp"));
  CHECK(!glob_matches("*.h.1", "xh.1"));
  CHECK(glob_matches("*", ""));
  CHECK(glob_matches("*norm*", "a.layernorm.b"));
  CHECK(glob_matches("a*b*c", "axxbyybzc"));
  CHECK(!glob_matches("a*b*c", "axxbyybz"));
  CHECK(glob_covers("*.wte", "transformer.wte.weight"));
  CHECK(!glob_covers("*.h.1", "transformer.h.10.weight"));
  CHECK(glob_covers("*.bias", "h.0.bias"));
  CHECK(covering_length("*.h.*", "m.h.3.mlp") == 5);
}

TEST_CASE("without annotations everything is one chunk and the graph stays as it was") {
  Model model;
  const std::string before = ir::print(model.graph);
  const auto result = cut(std::move(model), {});
  CHECK(chunk_names(result) == "all");
  CHECK(result.tags.empty());
  CHECK(result.graph.num_ops() > 10);
}

TEST_CASE("starts cut at modules; what stands before joins, what needs no parameter is copied") {
  std::string remarks;
  const auto result = cut(Model(), {starts("PP", {"*.h.0", "*.h.2"})}, &remarks);
  CHECK(chunk_names(result) == "PP0 PP1");
  CHECK(chunk_of(result, "embedding") == "PP0");
  CHECK(chunk_of(result, "loss") == "PP1");
  CHECK(chunk_of(result, "mask@PP0") == "PP0");
  CHECK(chunk_of(result, "mask@PP1") == "PP1");
  CHECK(result.tags[0].tag == "PP");
  CHECK(result.tags[0].count == 2);
  CHECK(remarks.find("untagged operators of module 'wte' join PP0: 1") != std::string::npos);
  CHECK(remarks.find("copied into PP0, PP1") != std::string::npos);
  CHECK(result.graph.value(result.graph.loss).name == "loss");
  // Only the residual stream crosses.
  int crossing = 0;
  const auto uses = result.graph.uses();
  for (size_t v = 0; v < result.graph.num_values(); ++v) {
    const ir::Value& value = result.graph.value(ValueId(v));
    if (value.kind != ir::ValueKind::kOpResult) continue;
    bool crosses = false;
    for (ir::OpId use : uses[v]) {
      crosses = crosses || result.graph.op(use).chunk != result.graph.op(value.producer).chunk;
    }
    crossing += crosses;
  }
  CHECK(crossing == 1);
}

TEST_CASE("experts inside stages alternate with the rest and get numbers in graph order") {
  const auto result = cut(Model(4, true), {starts("PP", {"*.h.0", "*.h.2"}), modules("EP", {"*.mlp.experts"})});
  CHECK(chunk_names(result) == "PP0 EP0.PP0 PP0.2 EP1.PP0 PP0.3 PP1 EP2.PP1 PP1.2 EP3.PP1 PP1.3");
  CHECK(result.tags.size() == 2);
  CHECK(result.tags[0].count == 4);
}

TEST_CASE("stages are balanced by cost and their numbers are remarked") {
  std::string remarks;
  const auto result = cut(Model(8), {stages("PP", 4)}, &remarks);
  CHECK(chunk_names(result) == "PP0 PP1 PP2 PP3");
  CHECK(remarks.find("the stages of 'PP' cost 6720, 6656, 6656, 8705 flops of a forward") != std::string::npos);
  CHECK(remarks.find("the largest is 1.21 times the mean") != std::string::npos);
  CHECK(error(Model(2), {stages("PP", 40)}).find("error[P0207]") != std::string::npos);
  CHECK(chunk_names(cut(Model(2), {stages("PP", 1)})) == "PP0");
  // Block costs 1 (embedding) and 4 x equal: two stages get two blocks each.
  const Model model(4);
  std::vector<double> cost;
  const auto stage = regions::balance_stages(model.graph, analysis::op_roles(model.graph), 2, cost);
  REQUIRE(cost.size() == 2);
  CHECK(std::max(cost[0], cost[1]) < 1.5 * std::min(cost[0], cost[1]));
  // Ten equal blocks in four stages: no stage is left with less than the others leave.
  const Model ten(10);
  regions::balance_stages(ten.graph, analysis::op_roles(ten.graph), 4, cost);
  REQUIRE(cost.size() == 4);
  CHECK(std::max(cost[2], cost[3]) < 2 * std::min(cost[0], cost[1]));
}

TEST_CASE("rows of experts cost their products") {
  ir::Graph graph;
  ir::GraphBuilder b(graph, ir::ScopeId(), graph.provenance().unknown("test"));
  const ValueId x = graph.add_input("x", {DType::kF32, {6, 8}}, true),
                counts = graph.add_input("counts", {DType::kI64, {1, 4}}, true);
  const ValueId w = graph.add_parameter({"w"}, {DType::kF32, {4, 8, 5}}, true, {});
  b.add1(OpKind::kGroupedMatmul, {x, w, counts}, ir::GroupedMatmulAttrs{});
  REQUIRE(b.status().ok());
  CHECK(regions::estimate_flops(graph, graph.op(ir::OpId(0))) == 2 * 6 * 5 * 8);
}

TEST_CASE("a tag of modules is theirs alone") {
  const auto result = cut(Model(2, true), {modules("EP", {"*.mlp.experts"})});
  CHECK(chunk_names(result) == "rest EP0 rest.2 EP1 rest.3");
  CHECK(chunk_of(result, "loss") == "rest.3");
}

TEST_CASE("a tag of modules is everybody's where all need one") {
  for (const char* tag : {"PP", ""}) {
    const auto result = cut_by(Model(4), needing(tag, {modules("PP", {"*.h.0", "*.h.1", "*.h.2", "*.h.3"})}));
    CHECK(chunk_names(result) == "PP0 PP1 PP2 PP3");
    CHECK(chunk_of(result, "embedding") == "PP0");
    CHECK(chunk_of(result, "loss") == "PP3");
  }
}

TEST_CASE("an op of a stage that reads nothing from earlier stages does not make a chunk of its own") {
  Model model(2);
  // A second branch from the inputs that meets the trunk in the last block.
  model.in("h.1.side");
  const ValueId idx = model.graph.inputs()[0].value;
  const ValueId side = model.b.add1(OpKind::kEmbedding, {model.weight({16, 8}), idx}, ir::EmbeddingAttrs{}, "side");
  const ValueId merged =
      model.b.add1(OpKind::kAdd, {model.b.sum(side, {0, 1, 2}, false), model.graph.loss}, ir::NoAttrs{});
  model.graph.loss = merged;
  model.graph.outputs[0].value = merged;
  const auto result = cut(std::move(model), {starts("PP", {"*.h.0", "*.h.1"})});
  CHECK(chunk_names(result) == "PP0 PP1");
  CHECK(chunk_of(result, "side") == "PP1");
}

TEST_CASE("a weight used in two regions is read in both, its views are copied") {
  Model model(2);
  const ValueId shared = model.weight({8, 8});
  model.in("h.0");
  const ValueId turned = model.b.add1(OpKind::kPermute, {shared}, ir::PermuteAttrs{{1, 0}}, "turned");
  model.in("h.1.mlp");
  const ValueId x = model.b.add1(OpKind::kMatmul, {turned, turned});
  const ValueId both = model.b.add1(OpKind::kAdd, {model.b.sum(x, {0, 1}, false), model.graph.loss});
  model.graph.loss = both;
  const auto result = cut(std::move(model), {starts("PP", {"*.h.0", "*.h.1"})});
  CHECK(chunk_of(result, "turned") == "PP1");
}

TEST_CASE("each chunk of a region has its own view of a weight") {
  Model model(2, true);
  ValueId first, last;
  for (size_t i = 0; i < model.graph.num_ops(); ++i) {
    const ir::Op& op = model.graph.op(ir::OpId(i));
    if (op.kind == OpKind::kEmbedding) first = op.results[0];
    if (op.kind == OpKind::kAdd && model.graph.scope(op.scope) == "h.1") last = op.results[0];
  }
  model.in("");
  const ValueId turned = model.b.add1(OpKind::kPermute, {model.weight({8, 8})}, ir::PermuteAttrs{{1, 0}}, "turned");
  for (const ValueId x : {first, last}) {
    const ValueId y = model.b.sum(model.b.add1(OpKind::kMatmul, {x, turned}), {0, 1, 2}, false);
    model.graph.loss = model.b.add1(OpKind::kAdd, {y, model.graph.loss});
  }
  REQUIRE(model.b.status().ok());
  const auto result = cut(std::move(model), {modules("EP", {"*.mlp.experts"})});
  CHECK(chunk_names(result) == "rest EP0 rest.2 EP1 rest.3");
  std::vector<std::string> views, products;
  for (size_t i = 0; i < result.graph.num_ops(); ++i) {
    const ir::Op& op = result.graph.op(ir::OpId(i));
    const std::string& chunk = result.chunks[op.chunk.index].name;
    if (op.kind == OpKind::kPermute) views.push_back(chunk);
    if (op.kind == OpKind::kMatmul) products.push_back(chunk);
  }
  CHECK(views == std::vector<std::string>{"rest", "rest.3"});
  CHECK(products == views);
  auto again = ir::parse_graph(ir::print(result.graph), "a.pir");
  if (!again.ok()) FAIL(again.error().message);
  CHECK(ir::print(*again) == ir::print(result.graph));
}

TEST_CASE("the cut is deterministic and survives printing") {
  const auto a = cut(Model(4, true), {starts("PP", {"*.h.0", "*.h.2"}), modules("EP", {"*.mlp.experts"})});
  const auto b = cut(Model(4, true), {starts("PP", {"*.h.0", "*.h.2"}), modules("EP", {"*.mlp.experts"})});
  CHECK(ir::print(a.graph) == ir::print(b.graph));
  auto again = ir::parse_graph(ir::print(a.graph), "a.pir");
  if (!again.ok()) FAIL(again.error().message);
  CHECK(ir::print(*again) == ir::print(a.graph));
}

TEST_CASE("one glob of several may match nothing") {
  diag::Diagnostics diags;
  Model model;
  CHECK(regions::cut_chunks(std::move(model.graph), strategy_of({modules("EP", {"*.head", "*.mpl"})}), diags).ok());
  CHECK(diags.render_text(false).find("warning[P0210]: no module of the model matches '*.mpl'") != std::string::npos);
}

TEST_CASE("wrong annotations are named") {
  CHECK(
      error(Model(), {starts("PP", {"*.h.0", "*.h.9"})}).find("error[P0210]: no module of the model matches '*.h.9'") !=
      std::string::npos);
  CHECK(error(Model(), {starts("PP", {"*.layer.0"})}).find("the modules are") != std::string::npos);
  CHECK(error(Model(), {modules("EP", {"*.haed", "*.mpl"})}).find("error[P0210]") != std::string::npos);
  // What is advised matches: the end of a path alone is none.
  CHECK(error(Model(), {modules("EP", {"attm"})}).find("did you mean '*.attn'?") != std::string::npos);
  CHECK(error(Model(), {starts("PP", {"*.h.2", "*.h.0"})}).find("error[P0211]") != std::string::npos);
  CHECK(error(Model(), {starts("PP", {"*.h.0", "h.0"})}).find("error[P0211]") != std::string::npos);
  CHECK(error(Model(), {starts("PP", {"*.h.0"}), stages("PP", 2)}).find("error[P0217]") != std::string::npos);
}

TEST_CASE("a region that feeds an earlier one is refused") {
  Model model(3);
  model.in("h.0.again");
  const ValueId x = model.b.add1(OpKind::kRelu, {model.graph.loss});
  model.graph.loss = x;
  const std::string text = error_by(std::move(model), needing("PP", {modules("PP", {"*.h.0", "*.h.1", "*.h.2"})}));
  CHECK(text.find("error[P0212]: PP 2 feeds PP 0, an earlier region") != std::string::npos);
}

TEST_CASE("three hundred blocks with experts") {
  const auto result = cut(Model(300, true), {stages("PP", 16), modules("EP", {"*.mlp.experts"})});
  CHECK(result.tags[1].count == 16);
  CHECK(result.tags[0].count == 300);
}

// The model's own tags: what an op of a module is called in the file, and its tag.
struct Tagged {
  Model model;
  regions::ModelTags tags;
  // Ops of modules that `region` numbers get the tag.
  void annotate(const std::string& tag, const std::function<int(const std::string&)>& region) {
    ir::Graph& g = model.graph;
    for (size_t i = 0; i < g.num_ops(); ++i) {
      ir::Op& op = g.op(ir::OpId(i));
      const std::string node = "n" + std::to_string(i);
      op.prov = g.provenance().model({node, g.scope(op.scope), ""});
      if (const int k = region(g.scope(op.scope)); k >= -1) {
        if (k >= 0 || tag == "bad") tags[node].push_back({tag, k});
      }
    }
  }
};
int block_pair(const std::string& scope) { return scope.rfind("h.", 0) == 0 ? (scope[2] - '0') / 2 : -1; }
int expert_block(const std::string& scope) { return scope.find("experts") != std::string::npos ? scope[2] - '0' : -1; }

TEST_CASE("a model brings its own tags") {
  Tagged t;
  t.annotate("PP", block_pair);
  diag::Diagnostics diags;
  const auto result = regions::cut_chunks(std::move(t.model.graph), needing("PP", {}), diags, t.tags);
  REQUIRE(result.ok());
  check_invariants(*result);
  CHECK(chunk_names(*result) == "PP0 PP1");
  CHECK(chunk_of(*result, "loss") == "PP1");  // untagged: with what it reads
  REQUIRE(result->tags.size() == 1);
  CHECK(result->tags[0].count == 2);
}

TEST_CASE("the tag on the most ops is everybody's where all need some tag") {
  Tagged t{Model(4, true), {}};
  t.annotate("EP", expert_block);
  t.annotate("PP", block_pair);
  for (auto& [node, tags] : t.tags)
    std::sort(tags.begin(), tags.end(), [](const auto& a, const auto& b) { return a.tag < b.tag; });
  diag::Diagnostics diags;
  ir::Graph graph = t.model.graph;
  const auto result = regions::cut_chunks(std::move(t.model.graph), needing("", {}), diags, t.tags);
  REQUIRE(result.ok());
  check_invariants(*result);
  CHECK(chunk_names(*result).find("EP1.PP0") != std::string::npos);
  CHECK(chunk_of(*result, "loss").substr(0, 3) == "PP1");
  const auto whole = regions::cut_chunks(std::move(graph), strategy_of({}), diags, t.tags);
  REQUIRE(whole.ok());
  CHECK(chunk_of(*whole, "loss").substr(0, 4) == "rest");
}

TEST_CASE("an annotation goes before the model's own tag and says so") {
  Tagged t;
  t.annotate("PP", block_pair);
  diag::Diagnostics diags;
  const auto result =
      regions::cut_chunks(std::move(t.model.graph), strategy_of({starts("PP", {"h.0", "h.1"})}), diags, t.tags);
  REQUIRE(result.ok());
  CHECK(chunk_of(*result, "loss") == "PP1");
  CHECK(chunk_names(*result) == "PP0 PP1");
  CHECK(diags.render_text(true).find("the model's own annotations of it are not used") != std::string::npos);
}

TEST_CASE("tags of the model that leave out an index are refused") {
  for (const int first : {1, -1}) {
    Tagged t;
    t.annotate(first < 0 ? "bad" : "PP",
               [&](const std::string& scope) { return scope.rfind("h.", 0) == 0 ? first : -2; });
    diag::Diagnostics diags;
    CHECK(!regions::cut_chunks(std::move(t.model.graph), strategy_of({}), diags, t.tags).ok());
    CHECK(diags.render_text(false).find("error[P0316]") != std::string::npos);
  }
}

}  // namespace piper::passes
