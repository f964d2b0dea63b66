// Which buffers a plan is made of, by how the calls of a program use them.
#include <catch2/catch.hpp>

#include "compiler/frontend/aten/fixed_buffers.h"

using namespace piper;
using frontend::aten::Program;

namespace {

// "y = aten.mul.Tensor(%x, %b)"
Program program(const std::vector<std::string>& lines) {
  Program out;
  for (const std::string& line : lines) {
    const size_t equals = line.find(" = "), open = line.find('(');
    const auto call = frontend::aten::parse_fx_text(
        "%" + line.substr(0, equals) + " : [num_users=1] = call_function[target=torch.ops." +
        line.substr(equals + 3, open - equals - 3) + "](args = " + line.substr(open) + ", kwargs = {})");
    REQUIRE(call.ok());
    out.calls.emplace_back().call = *call;
  }
  out.sizes["s"] = "S";
  return out;
}

// `b` and `d` are buffers, `c` is a constant, other names are inputs and parameters.
std::set<std::string> fixed(const std::vector<std::string>& lines) {
  return frontend::aten::fixed_buffers(program(lines), {"b", "d"}, {"c"});
}

}  // namespace

TEST_CASE("what a step computes with is read") {
  CHECK(fixed({"y = aten.mul.Tensor(%x, %b)"}).empty());
  CHECK(fixed({"v = aten.slice.Tensor(%b, 0, 0, %s)", "y = aten.add.Tensor(%x, %v)"}).empty());
  CHECK(fixed({"m = aten.mul.Tensor(%b, %c)", "y = aten.cos.default(%m)", "z = aten.add.Tensor(%y, %x)"}).empty());
  CHECK(fixed({"y = aten.cross_entropy_loss.default(%x, %t, %b)"}).empty());
  CHECK(fixed({"y = aten.embedding.default(%b, %x)"}).empty());
  CHECK(fixed({"y = aten.eq.Tensor(%b, %x)"}).empty());
  CHECK(fixed({}).empty());
}

TEST_CASE("masks, indices and numbers that must be known are fixed") {
  const std::set<std::string> b{"b"};
  CHECK(fixed({"y = aten.masked_fill.Scalar(%x, %b, 0.0)"}) == b);
  CHECK(fixed({"y = aten.masked_fill_.Scalar(%x, %b, 0.0)"}) == b);
  CHECK(fixed({"v = aten.slice.Tensor(%b, 0, 0, %s)", "m = aten.eq.Scalar(%v, 0)",
               "y = aten.masked_fill.Scalar(%x, %m, 0.0)"}) == b);
  CHECK(fixed({"y = aten.where.self(%b, %x, %w)"}) == b);
  CHECK(fixed({"y = aten.scaled_dot_product_attention.default(%x, %x, %x, %b)"}) == b);
  CHECK(fixed({"y = aten.embedding.default(%w, %b)"}) == b);
  CHECK(fixed({"y = aten.index.Tensor(%w, [%b])"}) == b);
  CHECK(fixed({"y = aten.gather.default(%x, 1, %b)"}) == b);
  CHECK(fixed({"y = aten.pow.Tensor_Tensor(%x, %b)"}) == b);
  CHECK(fixed({"m = aten.logical_and.default(%b, %d)", "y = aten.where.self(%m, %x, %w)"}) ==
        std::set<std::string>{"b", "d"});
}

TEST_CASE("a mask that is also a number is read, an index that is one stays fixed") {
  CHECK(fixed({"y = aten.mul.Tensor(%x, %b)", "m = aten.eq.Scalar(%b, 0)", "z = aten.masked_fill.Scalar(%y, %m, 0.0)"})
            .empty());
  CHECK(fixed({"y = aten.embedding.default(%w, %b)", "z = aten.add.Tensor(%x, %b)"}) == std::set<std::string>{"b"});
}
