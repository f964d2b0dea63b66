// A program for one number of samples from those for two larger ones.
#include <catch2/catch.hpp>

#include <cstring>

#include "compiler/frontend/fold.h"
#include "compiler/frontend/instantiate.h"

namespace piper::frontend {
namespace {

// Rows of 4, of which `number`, a constant of the type, is a divisor.
ir::Graph of(int64_t samples, const std::string& type, const std::string& number) {
  auto graph = ir::parse_graph("graph {\n  %x = input \"x\" : f32[" + std::to_string(samples) +
                                   ", 4]\n  %n = constant : " + type + "[] data [" + number +
                                   "]\n  %c = cast(%n) {to=f32}\n  %y = div(%x, %c)\n  output \"y\" = %y\n}",
                               "t.pir");
  if (!graph.ok()) FAIL(graph.error().message);
  return *graph;
}
// The constant of one sample.
template <class T>
std::optional<T> made(const std::string& type, const std::string& of_two, const std::string& of_three) {
  const auto one = instantiate(of(2, type, of_two), 2, of(3, type, of_three), 3, 1);
  if (!one) return std::nullopt;
  CHECK(one->type(one->outputs[0].value).shape == std::vector<int64_t>{1, 4});
  const ir::Op& cast = one->op(ir::OpId(0));
  const auto constant = constant_of(*one, cast.operands[0]);
  REQUIRE(constant);
  T number;
  std::memcpy(&number, constant->data()->data(), sizeof number);
  return number;
}

}  // namespace

TEST_CASE("a number that counts what samples have counts that of fewer") {
  CHECK(made<float>("f32", "128.0", "192.0") == 64.0F);
  CHECK(made<int64_t>("i64", "8", "12") == 4);
  CHECK(made<float>("f32", "5.0", "5.0") == 5.0F);
}

TEST_CASE("a number that depends on samples otherwise says nothing of fewer") {
  CHECK(!made<float>("f32", "4.0", "9.0"));  // their square
  CHECK(!made<float>("f32", "3.0", "4.0"));  // one more than they are
  CHECK(!made<float>("f32", "0.5", "0.25"));
  CHECK(!made<int64_t>("i64", "3", "5"));
}

}  // namespace piper::frontend
