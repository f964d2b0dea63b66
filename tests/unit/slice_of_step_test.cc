// What of a model bound to a piece is replaced by a slice of the whole's, on graphs of two samples and of four.
#include "compiler/frontend/slice_of_step.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

namespace piper::frontend {
namespace {

// `text` has, for numbers that differ, $T for two for each sample and $RANGE for the range of so many.
ir::Graph graph_of(std::string text, int64_t samples) {
  std::string range;
  for (int64_t i = 0; i < 2 * samples; ++i) range += (i > 0 ? ", " : "") + std::to_string(i);
  const std::vector<std::pair<std::string, std::string>> words = {{"$T", std::to_string(2 * samples)},
                                                                  {"$RANGE", range}};
  for (const auto& [word, by] : words)
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word)) text.replace(at, word.size(), by);
  auto graph = ir::parse_graph(text, "test");
  INFO(text);
  REQUIRE(graph.ok());
  return std::move(*graph);
}

Result<ir::Graph> slice(const std::string& text, diag::Diagnostics& diags, const std::string& per_piece = "") {
  const SliceOfStep step{2, 4, 4, [&](const std::string& module) { return module == per_piece; }};
  return slice_of_step(graph_of(text, 2), graph_of(text, 4), step, diags);
}

// Whether the slice is the piece as it was.
bool stays(const std::string& text, const std::string& per_piece = "") {
  diag::Diagnostics diags;
  auto graph = slice(text, diags, per_piece);
  INFO(diags.render_text(true));
  REQUIRE(graph.ok());
  return ir::print(*graph) == ir::print(graph_of(text, 2));
}

const std::string kHead = R"(graph {
  %x = input "x" : f32[$T, 3]
  %order = input "order" : i64[$T]
  %range = constant : i64[$T] data [$RANGE]
)";

}  // namespace

TEST_CASE("what rows of samples are read by keeps the piece's numbers") {
  CHECK(stays(kHead + R"(
  %names = index_select(%range, %order) {dim=0}
  %y = index_select(%x, %names) {dim=0}
  output "y" = %y
})"));
  // Numbers that count from the end.
  CHECK(stays(kHead + R"(
  %extent = constant : i64[] data [$T]
  %zero = constant : i64[] data [0]
  %names = add(%range, %order)
  %negative = lt(%names, %zero)
  %wrapped = add(%names, %extent)
  %index = where(%negative, %wrapped, %names)
  %y = index_select(%x, %index) {dim=0}
  output "y" = %y
})"));
  CHECK_FALSE(stays(kHead + R"(
  %places = add(%range, %order)
  output "places" = %places
})"));
}

TEST_CASE("numbers that are read as indices and as values are refused") {
  diag::Diagnostics diags;
  CHECK_FALSE(slice(kHead + R"(
  %names = index_select(%range, %order) {dim=0}
  %y = index_select(%x, %names) {dim=0}
  output "y" = %y
  output "names" = %names
})",
                    diags)
                  .ok());
  REQUIRE(diags.num_errors() == 1);
  CHECK(diags.all()[0].code == "P0336");
}

TEST_CASE("a module of pieces keeps the piece's range of places") {
  const std::string text = kHead + R"(
  %row = reshape(%range) {shape=[1, $T]} scope "moe"
  %column = reshape(%order) {shape=[$T, 1]} scope "moe"
  %slot = eq(%column, %row) scope "moe"
  output "slot" = %slot
})";
  CHECK(stays(text, "moe"));
  CHECK_FALSE(stays(text));
}

}  // namespace piper::frontend
