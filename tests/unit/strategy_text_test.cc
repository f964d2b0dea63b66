// Edits of strategies as text: what was not changed stays, and what was has a comment.
#include <catch2/catch.hpp>

#include "compiler/tune/strategy_text.h"

namespace piper::tune {
namespace {

std::string text(const Result<std::string>& result) {
  return result.ok() ? *result : "failed: " + result.error().message;
}

// A directive in every style of YAML.
constexpr const char* kBlock = R"(piper: 1   # first
directives:
  # of stage 0
  - {op: place, filter: {PP: 0}, devices: [0, 1]}   # two
  - op: replicate   # in lines
    filter: {PP: 0}
    devices:
    - 0
    - 1
  - {op: recompute, filter: {PP: 0}}
schedule:
  family: 1f1b
  microbatches: 4
# the end
optimizer: {sgd: {lr: 0.1}}
)";

}  // namespace

TEST_CASE("directives are found by their op") {
  CHECK(*directives_of(kBlock, "replicate") == std::vector<size_t>{1});
  CHECK(directives_of(kBlock, "order")->empty());
  CHECK(text(key_of(kBlock, 1, "op")) == "replicate");
  CHECK(text(key_of(kBlock, 1, "bucket_size")).empty());
  CHECK(!key_of(kBlock, 3, "op").ok());
  CHECK(*directives_of(R"([{"op": "place"}, {"op": "order"}])", "order") == std::vector<size_t>{1});
}

TEST_CASE("a key is added or replaced where it stands") {
  const auto added = text(with_key(kBlock, 1, "bucket_size", "5", "why"));
  CHECK(added.find("  # why\n  - op: replicate   # in lines\n    bucket_size: 5\n    filter: {PP: 0}\n") !=
        std::string::npos);
  const auto replaced = text(with_key(added, 1, "bucket_size", "20", "more\nof it"));
  CHECK(replaced.find("  # why\n  # more\n  # of it\n  - op: replicate   # in lines\n    bucket_size: 20\n") !=
        std::string::npos);
  CHECK(text(with_key(kBlock, 0, "stream", "x", "why")).find("  # why\n  - {op: place, stream: x, filter: {PP: 0}") !=
        std::string::npos);
  CHECK(text(with_key("[{\"op\": \"replicate\", \"bucket_size\": 5}]\n", 0, "bucket_size", "7", "why")) ==
        "# why\n[{\"op\": \"replicate\", \"bucket_size\": 7}]\n");
  CHECK(text(with_key("[{\"op\": \"replicate\"}]", 0, "bucket_size", "7", "")) ==
        "[{\"op\": \"replicate\", bucket_size: 7}]\n");
}

TEST_CASE("a directive is taken out with its lines") {
  const std::string whole = kBlock;
  const auto without = text(without_directive(whole, 1, "why"));
  CHECK(without.find("   # two\n  # why\n  - {op: recompute, filter: {PP: 0}}\nschedule:") != std::string::npos);
  CHECK(text(without_directive(whole, 2, "")).find("    - 1\nschedule:") != std::string::npos);
  // A list without items is a list.
  CHECK(text(without_directive("directives:\n  - {op: order}\nx: 1\n", 0, "why")) ==
        "directives:\n  # why\n    []\nx: 1\n");
  CHECK(text(without_directive("directives: [{op: a}, {op: b}]\n", 0, "")) == "directives: [ {op: b}]\n");
  CHECK(text(without_directive("directives: [{op: a}, {op: b}]\n", 1, "")) == "directives: [{op: a}]\n");
}

TEST_CASE("directives are added behind those that are there") {
  CHECK(text(with_directives(kBlock, {"{op: note}"}, "why"))
            .find("  - {op: recompute, filter: {PP: 0}}\n  # why\n  - {op: note}\nschedule:") != std::string::npos);
  const auto flow = text(with_directives("[{\"op\": \"place\"}]", {"{op: note}", "{op: split}"}, "why"));
  CHECK(flow == "[{\"op\": \"place\"},\n  # why\n  {op: note},\n  {op: split}\n  ]\n");
  CHECK(directives_of(flow, "split")->size() == 1);
  CHECK(text(with_directives("model: {batch: 4}", {"{op: note}"}, "why")) ==
        "model: {batch: 4}\ndirectives:\n  # why\n  - {op: note}\n");
  CHECK(!with_directives("{model: {batch: 4}}", {"{op: note}"}, "why").ok());
}

TEST_CASE("a schedule becomes a comment") {
  const auto edited = text(with_directives_for_schedule(kBlock, {"{op: split}"}, "why"));
  CHECK(edited.find("# schedule:\n#   family: 1f1b\n#   microbatches: 4\n# the end\noptimizer") != std::string::npos);
  CHECK(edited.find("  # why\n  - {op: split}\n# schedule:") != std::string::npos);
  CHECK(text(with_directives_for_schedule("schedule: {family: 1f1b,\n  microbatches: 2}   # so\nx: 1\n",
                                          {"{op: split}"}, "why")) ==
        "# schedule: {family: 1f1b,\n#   microbatches: 2}   # so\ndirectives:\n  # why\n  - {op: split}\nx: 1\n");
  CHECK(!with_directives_for_schedule("{schedule: {family: 1f1b}}", {"{op: split}"}, "why").ok());
}

// A mesh that nothing reads is an error of the language.
TEST_CASE("a mesh goes with the schedule that was its only reader") {
  const std::string mesh = "mesh: {pp: 2, dp: 2}\nnode: {ranks: 2, inside: [dp]}\nschedule: {ranks: {pp: each}}\n";
  CHECK(text(with_directives_for_schedule(mesh, {"{op: split}"}, "why")) ==
        "# mesh: {pp: 2, dp: 2}\n# node: {ranks: 2, inside: [dp]}\n# schedule: {ranks: {pp: each}}\ndirectives:\n  # "
        "why\n"
        "  - {op: split}\n");
  const std::string read = "directives:\n- {op: shard, devices: {pp: 0, dp: each}}\n";
  CHECK(text(with_directives_for_schedule(mesh + read, {"{op: split}"}, "why")).find("\nnode: ") != std::string::npos);
  const std::string listed = "directives:\n- {op: shard, devices: [[0, 1], {pp: 1}]}\n";
  CHECK(text(with_directives_for_schedule(mesh + listed, {"{op: split}"}, "why")).find("mesh: ") == 0);
}

TEST_CASE("long orders are broken between groups") {
  std::string order = "{op: order, filters: [[a]";
  for (int k = 0; k < 40; ++k) order += ", [{MB: 1, PASS: F}]";
  const auto lines = wrapped(order + "]}", 4);
  CHECK(lines.find("\n    [{MB: 1, PASS: F}], ") != std::string::npos);
  for (size_t at = 0, end = 0; at < lines.size(); at = end + 1) {
    end = std::min(lines.find('\n', at), lines.size());
    CHECK(end - at <= 120);
  }
}

}  // namespace piper::tune
