// The batch axis through reshapes and index constants, and loss formulas evaluated on numbers.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>

#include "compiler/frontend/fold.h"
#include "compiler/passes/normalise_losses.h"

namespace piper::passes {
namespace {

ir::Graph parsed(const std::string& body) {
  auto graph = ir::parse_graph("graph {" + body + "}", "t.pir");
  if (!graph.ok()) FAIL(graph.error().message);
  return std::move(graph).value();
}
ir::ValueId named(const ir::Graph& graph, const std::string& name) {
  for (size_t i = 0; i < graph.num_values(); ++i)
    if (graph.value(ir::ValueId(i)).name == name) return ir::ValueId(i);
  FAIL("no value " << name);
  return {};
}
std::string factor(const ir::Graph& graph, int64_t batch, const std::string& name) {
  analysis::BatchFactor f = analysis::track_batch(graph, batch).of(named(graph, name));
  if (f.kind == analysis::BatchKind::kNone) return "none";
  if (f.kind == analysis::BatchKind::kMixed) return "mixed";
  if (f.kind == analysis::BatchKind::kTotal) return "total";
  return std::to_string(f.axis) + ":" + std::to_string(f.outer) + "x" + std::to_string(f.inner);
}

}  // namespace

TEST_CASE("the batch axis is followed through merged axes") {
  for (int64_t b : {1, 2, 5}) {
    std::string n = std::to_string(b);
    ir::Graph graph = parsed("%x = input \"x\" : f32[" + n +
                             ", 3, 8]"
                             "%flat = reshape(%x) {shape=[" +
                             std::to_string(b * 3) +
                             ", 8]}"
                             "%heads = reshape(%flat) {shape=[" +
                             n +
                             ", 3, 2, 4]}"
                             "%turned = permute(%heads) {dims=[2, 0, 1, 3]}"
                             "%merged = reshape(%turned) {shape=[" +
                             std::to_string(2 * b * 3) +
                             ", 4]}"
                             "%row = slice(%x) {dim=1, start=0, end=1}"
                             "%soft = softmax(%x) {dim=2}"
                             "%mean = mean(%x) {dims=[2]}"
                             "%p = parameter [\"p\"] : f32[3, 8]"
                             "%changed = mul(%x, %p)"
                             "%whole = sum(%changed) {dims=[0]}"
                             "%y, %a, %r = layer_norm(%x)");
    CAPTURE(b);
    CHECK(factor(graph, b, "flat") == "0:1x3");
    CHECK(factor(graph, b, "heads") == "0:1x1");
    CHECK(factor(graph, b, "turned") == "1:1x1");
    CHECK(factor(graph, b, "merged") == "0:2x3");
    CHECK(factor(graph, b, "row") == "0:1x1");
    CHECK(factor(graph, b, "soft") == "0:1x1");
    CHECK(factor(graph, b, "mean") == "0:1x1");
    CHECK(factor(graph, b, "whole") == "mixed");
    CHECK(factor(graph, b, "r") == "0:1x3");
  }
}

TEST_CASE("products, broadcasts and constant indices keep or mix the batch") {
  ir::Graph graph = parsed(R"(
    %x = input "x" : f32[2, 3]
    %mask = input "mask" : f32[2, 3]
    %ids = input "ids" : i64[2, 3]
    %w = parameter ["w"] : f32[3, 3]
    %table = parameter ["t"] : f32[7, 4]
    %all = constant : i64[6] data [0, 1, 2, 3, 4, 5]
    %swapped = constant : i64[6] data [3, 4, 5, 0, 1, 2]
    %e = embedding(%table, %ids)
    %ww = matmul(%x, %w)
    %turned = permute(%x) {dims=[1, 0]}
    %gram = matmul(%x, %turned)
    %inner = matmul(%turned, %x)
    %changed = matmul(%turned, %ww)
    %flat = reshape(%mask) {shape=[6]}
    %kept = index_select(%flat, %all) {dim=0}
    %mixed = index_select(%flat, %swapped) {dim=0}
    %column = reshape(%x) {shape=[2, 1, 3]}
    %row = reshape(%x) {shape=[1, 2, 3]}
    %pairs = add(%column, %row)
    %square = mul(%w, %w)
    %cat = cat(%x, %x) {dim=0})");
  CHECK(factor(graph, 2, "e") == "0:1x1");
  CHECK(factor(graph, 2, "ww") == "0:1x1");
  CHECK(factor(graph, 2, "turned") == "1:1x1");
  CHECK(factor(graph, 2, "gram") == "mixed");
  CHECK(factor(graph, 2, "inner") == "total");
  CHECK(factor(graph, 2, "changed") == "mixed");
  CHECK(factor(graph, 2, "kept") == "0:1x3");
  CHECK(factor(graph, 2, "mixed") == "mixed");
  CHECK(factor(graph, 2, "pairs") == "mixed");
  CHECK(factor(graph, 2, "square") == "none");
  CHECK(factor(graph, 2, "cat") == "0:2x1");
}

TEST_CASE("what data alone add up is a total, and so is what is made of totals") {
  ir::Graph graph = parsed(R"(
    %x = input "x" : f32[2, 3]
    %mask = input "mask" : f32[2]
    %long = input "long" : f32[2, 5000]
    %w = parameter ["w"] : f32[3]
    %one = constant : f32[] data [1.0]
    %count = sum(%mask) {dims=[0]}
    %clamped = maximum(%count, %one)
    %means = mean(%x) {dims=[0]}
    %ratios = div(%means, %clamped)
    %centred = sub(%x, %means)
    %again = sum(%centred) {dims=[0]}
    %scaled = mul(%w, %means)
    %mine = mul(%x, %w)
    %of_parameters = sum(%mine) {dims=[0]}
    %largest = amax(%x) {dims=[0]}
    %many = sum(%long) {dims=[0]})");
  for (const char* total : {"count", "clamped", "means", "ratios"}) CHECK(factor(graph, 2, total) == "total");
  CHECK(factor(graph, 2, "centred") == "0:1x1");
  CHECK(factor(graph, 2, "scaled") == "none");
  // A total of totals takes two passes over the data, the others a parameter, a maximum and a buffer of their own.
  for (const char* mixed : {"again", "of_parameters", "largest", "many"}) CHECK(factor(graph, 2, mixed) == "mixed");
}

TEST_CASE("a total that is read sample by sample is one of the step") {
  ir::Graph graph = parsed(R"(
    %x = input "x" : f32[2, 3]
    %w = parameter ["w"] : f32[3]
    %means = mean(%x) {dims=[0]}
    %centred = sub(%x, %means)
    %y = mul(%centred, %w)
    %square = mul(%y, %y)
    %loss = sum(%square) {dims=[0, 1]}
    loss %loss)");
  diag::Diagnostics diags;
  analysis::BatchMap map = analysis::track_batch(graph, 2);
  REQUIRE(normalise_losses(graph, map, {4}, {}, diags).ok());
  const Status checked = ir::verify(graph);
  if (!checked.ok()) FAIL(checked.error().message);
  const std::string printed = ir::print(graph);
  CHECK(printed.find("= mean(") == std::string::npos);
  CHECK(printed.find("step_sum(") != std::string::npos);
}

TEST_CASE("mean losses of the model graph are gone, whatever reads them") {
  for (int64_t pieces : {1, 4})
    for (const char* reduction : {"mean", "sum", "none"}) {
      std::string text = reduction;
      ir::Graph graph = parsed(R"(
        %x = input "x" : f32[2, 5]
        %t = input "t" : i64[2]
        %w = parameter ["w"] : f32[5, 5]
        %weight = constant : f32[5] data [1.0, 2.0, 1.0, 1.0, 3.0]
        %y = linear(%x, %w)
        %lp = log_softmax(%y) {dim=1}
        %a = cross_entropy_loss(%y, %t, %weight) {reduction=")" +
                               text + R"("}
        %b = nll_loss(%lp, %t) {reduction=")" +
                               text + R"("}
        %c = add(%a, %b)
        )" + (text == "none" ? "%loss = mean(%c) {dims=[0]}" : "%loss = neg(%c)") +
                               " loss %loss");
      diag::Diagnostics diags;
      analysis::BatchMap map = analysis::track_batch(graph, 2);
      Status status = normalise_losses(graph, map, {pieces}, {}, diags);
      CAPTURE(pieces, text, diags.render_text(false));
      REQUIRE(status.ok());
      Status checked = ir::verify(graph);
      if (!checked.ok()) FAIL(checked.error().message);
      std::string printed = ir::print(graph);
      CHECK(printed.find("_loss(") == std::string::npos);
      CHECK((printed.find("step_sum") != std::string::npos) == (pieces > 1 && text == "mean"));
    }
}

TEST_CASE("two losses over the same labels share one count") {
  ir::Graph graph = parsed(R"(
    %x = input "x" : f32[2, 5]
    %t = input "t" : i64[2]
    %a = cross_entropy_loss(%x, %t)
    %y = neg(%x)
    %b = cross_entropy_loss(%y, %t)
    %loss = add(%a, %b)
    loss %loss)");
  diag::Diagnostics diags;
  analysis::BatchMap map = analysis::track_batch(graph, 2);
  REQUIRE(normalise_losses(graph, map, {2}, {}, diags).ok());
  std::string printed = ir::print(graph);
  size_t first = printed.find("cross_entropy_count");
  REQUIRE(first != std::string::npos);
  // The name of the result and the operator are on the one line.
  CHECK(printed.find("= cross_entropy_count") == printed.rfind("= cross_entropy_count"));
}

TEST_CASE("unreduced cross entropy follows the formula") {
  // log_softmax is not folded, so the formula is checked on log-probabilities through nll_loss.
  ir::Graph graph = parsed(R"(
    %lp = constant : f32[3, 2] data [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]
    %t = constant : i64[3] data [1, -100, 0]
    %weight = constant : f32[2] data [10.0, 1.0]
    %rows = nll_loss(%lp, %t, %weight) {reduction="none"}
    %loss = sum(%rows) {dims=[0]}
    loss %loss
    output "loss" = %loss)");
  diag::Diagnostics diags;
  analysis::BatchMap map = analysis::track_batch(graph, 3);
  REQUIRE(normalise_losses(graph, map, {1}, {}, diags).ok());
  ir::Graph folded = frontend::fold(graph);
  auto loss = frontend::constant_of(folded, folded.loss);
  REQUIRE(loss);
  float value = 0;
  std::memcpy(&value, loss->data()->data(), 4);
  CHECK(value == 52.0f);  // 1 * 2 + 0 + 10 * 5
}

}  // namespace piper::passes
