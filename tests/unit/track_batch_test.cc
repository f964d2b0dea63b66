// The batch's axis in a graph of few samples, read off the same graph at more.
#include "compiler/analysis/track_batch.h"
#include "compiler/passes/lay_out_dropout.h"

#include <catch2/catch.hpp>

#include <string>

namespace piper::passes {
namespace {

ir::Graph graph_of(const std::string& text) {
  auto graph = ir::parse_graph(text, "test");
  REQUIRE(graph.ok());
  return std::move(*graph);
}

}  // namespace

// At three samples one constant is both the samples' numbers and the features', so that values have other ids.
TEST_CASE("a graph with a constant more takes its axes from the one that it is like") {
  ir::ModelVariant variant;
  variant.chunked.graph = graph_of(R"(graph {
  %x = input "x" : f32[1, 3]
  %w = parameter ["w"] : f32[8, 3]
  %features = constant : i64[3] data [0, 1, 2]
  %numbers = constant : i64[1] data [0]
  %columns = index_select(%x, %features) {dim=1}
  %row = index_select(%w, %numbers) {dim=0}
  %y = add(%columns, %row)
  output "y" = %y
})");
  variant.like = graph_of(R"(graph {
  %x = input "x" : f32[3, 3]
  %w = parameter ["w"] : f32[8, 3]
  %features = constant : i64[3] data [0, 1, 2]
  %columns = index_select(%x, %features) {dim=1}
  %row = index_select(%w, %features) {dim=0}
  %y = add(%columns, %row)
  output "y" = %y
})");
  variant.like_batch = 3;
  const analysis::BatchMap map = analysis::track_batch(variant);
  const ir::Graph& graph = variant.chunked.graph;
  const auto kind_of = [&](size_t op) { return map.of(graph.op(ir::OpId(op)).results[0]).kind; };
  CHECK(kind_of(0) == analysis::BatchKind::kAxis);
  CHECK(kind_of(1) == analysis::BatchKind::kNone);
  CHECK(kind_of(2) == analysis::BatchKind::kAxis);
  CHECK(map.of(graph.inputs()[0].value).kind == analysis::BatchKind::kAxis);
}

}  // namespace piper::passes
