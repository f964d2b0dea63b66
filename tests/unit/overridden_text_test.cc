// Strategies with their --set options written into them: they mean what file and options mean together, and what is not
// changed stays as it was written.
#include <catch2/catch.hpp>

#include "compiler/strategy/overridden_text.h"

namespace piper::strategy {
namespace {

// Every style of YAML that strategies use.
constexpr const char* kFile = R"(# what it is for
piper: 1   # the language
model: {batch: 8, dims: {T: 64}}   # samples of a step
# of the paper
optimizer:
  adamw:
    lr: "3e-4"   # with quotes
    betas: [0.9, 0.95]

# the end
precision: {compute: bf16}
)";

Value tree(const std::string& text, const std::vector<std::string>& overrides = {}) {
  diag::Diagnostics diags;
  Value root = read_yaml(diags.add_file("s.yaml", text), text, 0, diags).value();
  for (const std::string& one : overrides) REQUIRE(apply_override(root, one, diags).ok());
  return root;
}

// The text that is written; it means what the options ask for.
std::string written(const std::string& text, const std::vector<std::string>& overrides) {
  diag::Diagnostics diags;
  const auto made = overridden_text("s.yaml", text, overrides, diags);
  INFO(diags.render_text(false));
  REQUIRE(made.ok());
  REQUIRE(made->has_value());
  CHECK(flow_text(tree(**made)) == flow_text(tree(text, overrides)));
  return **made;
}

std::string changed(std::string text, const std::string& from, const std::string& to) {
  REQUIRE(text.find(from) != std::string::npos);
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("a scalar is replaced where it is") {
  CHECK(written(kFile, {}) == kFile);
  CHECK(written(kFile, {"model.batch=16"}) == changed(kFile, "batch: 8", "batch: 16"));
  CHECK(written(kFile, {"model.dims.T=128", "model.batch=4"}) ==
        changed(changed(kFile, "batch: 8", "batch: 4"), "T: 64", "T: 128"));
  CHECK(written(kFile, {"optimizer.adamw.lr=1.0e-3"}) == changed(kFile, "\"3e-4\"", "1.0e-3"));
  CHECK(written(kFile, {"optimizer.adamw.betas.1=0.99"}) == changed(kFile, "0.95", "0.99"));
  CHECK(written(kFile, {"precision.compute=\"f32\""}) == changed(kFile, "bf16", "f32"));
  CHECK(written("model: {batch: 8}", {"model.batch=[1, 2]"}) == "model: {batch: [1, 2]}\n");
  CHECK(written("a: 'it''s'   # quoted\n", {"a=x"}) == "a: x   # quoted\n");
}

TEST_CASE("an entry is written anew where there is nothing to replace, and comments of others stay") {
  CHECK(written(kFile, {"model.loss=nll"}) == changed(kFile, "model: {batch: 8, dims: {T: 64}}   # samples of a step",
                                                      "model: {batch: 8, dims: {T: 64}, loss: nll}"));
  CHECK(written(kFile, {"optimizer={sgd: {lr: 0.1}}"}) ==
        changed(kFile, "optimizer:\n  adamw:\n    lr: \"3e-4\"   # with quotes\n    betas: [0.9, 0.95]\n",
                "optimizer: {sgd: {lr: 0.1}}\n"));
  CHECK(written(kFile, {"clip_grad_norm=1"}) ==
        changed(kFile, "compute: bf16}\n", "compute: bf16}\nclip_grad_norm: 1\n"));
  CHECK(written("model:\npiper: 1\n", {"model.batch=8"}) == "model: {batch: 8}\npiper: 1\n");
  CHECK(written("model: {batch: 8}\n", {"model.batch="}) == "model: {batch: null}\n");
}

TEST_CASE("where edits would change something else, the whole text is written anew") {
  CHECK(written("a: &size 8\nb: *size\n", {"a=4"}) == "a: 4\nb: 8\n");
  CHECK(written("a: {x: &size 8}\nb: *size\n", {"b=4"}) == "a: {x: &size 8}\nb: 4\n");
  CHECK(written("{\"a\": 8,\n\"b\": \"x y\"}\n", {"c=1"}) == "a: 8\nb: \"x y\"\nc: 1\n");
  CHECK(written("{\"a\": 8,\n\"b\": \"x y\"}\n", {"a=1"}) == "{\"a\": 1,\n\"b\": \"x y\"}\n");
}

TEST_CASE("a bare list has no place for options, and wrong options are errors") {
  diag::Diagnostics diags;
  const auto none = overridden_text("s.yaml", "[{\"op\": \"split\"}]", {"model.batch=8"}, diags);
  REQUIRE(none.ok());
  CHECK(!none->has_value());
  CHECK(!overridden_text("s.yaml", kFile, {"model.batch"}, diags).ok());
  CHECK(diags.render_text(false).find("--set:1:1: error[P0103]") != std::string::npos);
}

TEST_CASE("lines can be added to a file without braces around it") {
  CHECK(takes_lines(kFile, tree(kFile)));
  CHECK(takes_lines("a: 1", tree("a: 1")));
  for (const char* text : {"{a: 1}\n", "  a: 1\n  b: 2\n", "a: 1\n...\n"}) CHECK(!takes_lines(text, tree(text)));
  CHECK(lines_of(tree("{a: 1, \"b c\": [x, {d: \"1\"}]}")) == "a: 1\n\"b c\": [x, {d: \"1\"}]\n");
}

}  // namespace piper::strategy
