// Calls in place become calls that make new values; every later reader of the memory reads those.
#include <catch2/catch.hpp>

#include "compiler/frontend/aten/functionalise.h"

using namespace piper;
using frontend::aten::Item;
using frontend::aten::Origin;
using frontend::aten::Program;

namespace {

// Lines such as "y = aten.add_.Tensor(x, 1)": the program and its rewriting, printed back.
std::string print(const Item& x) {
  if (x.kind == Item::Kind::kRef) return x.text;
  if (x.kind == Item::Kind::kInt) return std::to_string(x.integer);
  if (x.kind == Item::Kind::kList) {
    std::string out;
    for (const Item& y : x.list) out += (out.empty() ? "[" : " ") + print(y);
    return out + "]";
  }
  return "?";
}

Program program(const std::vector<std::string>& lines, const std::string& output) {
  Program out;
  for (const std::string& line : lines) {
    const size_t equals = line.find(" = "), open = line.find('(');
    const auto call = frontend::aten::parse_fx_text(
        "%" + line.substr(0, equals) + " : [num_users=1] = call_function[target=torch.ops." +
        line.substr(equals + 3, open - equals - 3) + "](args = " + line.substr(open) + ", kwargs = {})");
    REQUIRE(call.ok());
    frontend::aten::ProgramCall c;
    c.call = *call;
    if (line.find("split") != std::string::npos || line.find("meshgrid") != std::string::npos)
      for (size_t i = 0; i < 2; ++i) c.results.emplace_back(c.call.name + "_" + std::to_string(i), i);
    out.calls.push_back(std::move(c));
  }
  out.outputs = {output};
  return out;
}

std::string rewritten(const std::vector<std::string>& lines, const std::string& output,
                      const std::map<std::string, Origin>& origins = {}) {
  Program p = program(lines, output);
  const Status status = frontend::aten::functionalise(p, origins);
  if (!status.ok()) return status.error().code;
  std::string text;
  for (size_t i : frontend::aten::live_order(p)) {
    const auto& call = p.calls[i].call;
    text += call.name + " = " + call.target.substr(5) + "(";
    for (size_t k = 0; k < call.args.size(); ++k) text += (k > 0 ? ", " : "") + print(call.args[k]);
    text += ")\n";
  }
  return text + p.outputs[0];
}

}  // namespace

TEST_CASE("a change is read under every name") {
  CHECK(rewritten({"a = aten.exp.default(%x)", "b = aten.add_.Tensor(%a, 1)", "c = aten.mul.Tensor(%a, %b)"}, "c") ==
        "a = exp.default(x)\nb = add.Tensor(a, 1)\nc = mul.Tensor(b, b)\nc");
}

TEST_CASE("a read before the change keeps the old value") {
  CHECK(rewritten({"a = aten.exp.default(%x)", "o = aten.neg.default(%a)", "b = aten.zero_.default(%a)",
                   "c = aten.mul.Tensor(%a, %o)"},
                  "c") == "a = exp.default(x)\no = neg.default(a)\nb = zeros_like.default(a)\nc = mul.Tensor(b, o)\nc");
}

// x[:, 2:5] = y, where x is what is read in the end.
TEST_CASE("a change through views is written back") {
  CHECK(rewritten(
            {"z = aten.zeros_like.default(%x)", "s = aten.slice.Tensor(%z, 1, 2, 5)", "k = aten.copy_.default(%s, %y)"},
            "z") ==
        "z = zeros_like.default(x)\ns = slice.Tensor(z, 1, 2, 5)\nk = copy.default(s, y)\nz_v1 = "
        "slice_scatter.default(z, k, 1, 2, 5)\nz_v1");
  CHECK(rewritten({"z = aten.zeros_like.default(%x)", "t = aten.permute.default(%z, [2, 0, 1])",
                   "s = aten.select.int(%t, 0, 3)", "k = aten.add_.Tensor(%s, 1)"},
                  "z") ==
        "z = zeros_like.default(x)\nt = permute.default(z, [2 0 1])\ns = select.int(t, 0, 3)\nk = add.Tensor(s, 1)\n"
        "t_v1 = select_scatter.default(t, k, 0, 3)\nz_v2 = permute.default(t_v1, [1 2 0])\nz_v2");
  CHECK(rewritten(
            {"z = aten.zeros_like.default(%x)", "t = aten.swapaxes.default(%z, 0, 1)", "k = aten.add_.Tensor(%t, 1)"},
            "z") ==
        "z = zeros_like.default(x)\nt = swapaxes.default(z, 0, 1)\nk = add.Tensor(t, 1)\nz_v1 = "
        "swapaxes.default(k, 0, 1)\nz_v1");
}

// A view that was made before a change of its base is made again when it is read.
TEST_CASE("views follow their base") {
  CHECK(rewritten({"z = aten.exp.default(%x)", "v = aten.view.default(%z, [4, 2])", "w = aten.select.int(%v, 0, 1)",
                   "k = aten.mul_.Tensor(%z, 2)", "r = aten.neg.default(%w)"},
                  "r") ==
        "z = exp.default(x)\nk = mul.Tensor(z, 2)\nv_v1 = view.default(k, [4 2])\nw_v2 = select.int(v_v1, 0, 1)\nr = "
        "neg.default(w_v2)\nr");
  CHECK(rewritten({"z = aten.exp.default(%x)", "s = aten.split.Tensor(%z, 2)", "k = aten.mul_.Tensor(%z, 2)",
                   "r = aten.neg.default(%s_1)"},
                  "r") ==
        "z = exp.default(x)\nk = mul.Tensor(z, 2)\ns_1_v1 = split.Tensor(k, 2)\ns_1_v2 = tor.getitem(s_1_v1, 1)\nr = "
        "neg.default(s_1_v2)\nr");
}

// Every row of the table of calls that names an operand (a) follows it.
TEST_CASE("the table of calls says what is a view") {
  std::vector<std::string> views, maybe;
#define PIPER_ATEN(handler, kind, schema)                                        \
  {                                                                              \
    const std::string text = schema;                                             \
    const std::string target = text.substr(0, text.find('('));                   \
    if (text.find("(Tensor(a) ") != std::string::npos) views.push_back(target);  \
    if (text.find("(Tensor(a?) ") != std::string::npos) maybe.push_back(target); \
  }
#include "compiler/frontend/aten/call_table.def"
#undef PIPER_ATEN
  REQUIRE(views.size() > 30);
  REQUIRE(maybe.size() > 10);
  for (const std::string& target : views) {
    INFO(target);
    const bool split = target.find("split") != std::string::npos;
    const std::string name = split ? "v_1" : "v";
    const std::string text = rewritten({"z = aten.exp.default(%x)", "v = " + target + "(%z, 1, 2)",
                                        "k = aten.mul_.Tensor(%z, 2)", "r = aten.neg.default(%" + name + ")"},
                                       "r");
    CHECK(text.find("(k, 1, 2)") != std::string::npos);
  }
  // Without the types of its operands, none of these is known to copy; a call of no dropout is no view.
  for (const std::string& target : maybe) {
    INFO(target);
    const std::vector<std::string> lines = {"z = aten.exp.default(%x)", "v = " + target + "(%z, 1, 2)",
                                            "k = aten.mul_.Tensor(%z, 2)", "r = aten.neg.default(%v)"};
    CHECK((rewritten(lines, "r") == "P0313") == (target != "aten.dropout.default"));
  }
}

// A list of operands: result i shares the memory of operand i, and a single result that of a single operand.
TEST_CASE("views of operands in a list") {
  const std::vector<std::string> lines = {"a = aten.exp.default(%x)", "b = aten.exp.default(%y)",
                                          "m = aten.meshgrid.default([%a, %b])", "k = aten.mul_.Tensor(%b, 2)"};
  const auto read = [&](const std::string& name) {
    std::vector<std::string> all = lines;
    all.push_back("r = aten.neg.default(%" + name + ")");
    return rewritten(all, "r");
  };
  CHECK(read("m_0") == "a = exp.default(x)\nb = exp.default(y)\nm = meshgrid.default([a b])\nr = neg.default(m_0)\nr");
  CHECK(read("m_1") == "P0313");
  CHECK(rewritten({"a = aten.exp.default(%x)", "e = aten.einsum.default(ij->ji, [%a])", "k = aten.mul_.Tensor(%a, 2)"},
                  "e") == "P0313");
  CHECK(rewritten(
            {"a = aten.exp.default(%x)", "e = aten.einsum.default(ij,jk->ik, [%a, %a])", "k = aten.mul_.Tensor(%a, 2)"},
            "e") != "P0313");
}

TEST_CASE("operators with a second name") {
  CHECK(rewritten({"a = aten.gt.Scalar(%x, 0)", "b = aten.__ior__.Tensor(%a, %y)"}, "a") ==
        "a = gt.Scalar(x, 0)\nb = bitwise_or.Tensor(a, y)\nb");
  CHECK(rewritten({"a = aten.__and__.Tensor(%x, %y)"}, "a") == "a = __and__.Tensor(x, y)\na");
}

// Changes whose readers the file does not tell are refused, but only where they are read.
TEST_CASE("changes that cannot be followed") {
  const std::vector<std::string> start = {"z = aten.exp.default(%x)"};
  const auto with = [&](std::vector<std::string> lines, const std::string& output) {
    lines.insert(lines.begin(), start.begin(), start.end());
    return rewritten(lines, output);
  };
  CHECK(with({"e = aten.expand.default(%z, [3, 4])", "k = aten.add_.Tensor(%e, 1)"}, "z") == "P0313");
  CHECK(with({"s = aten.split.Tensor(%z, 2)", "k = aten.add_.Tensor(%s_0, 1)"}, "z") == "P0313");
  CHECK(with({"r = aten.reshape.default(%z, [8])", "k = aten.add_.Tensor(%r, 1)"}, "z") == "P0313");
  CHECK(with({"r = aten.reshape.default(%z, [8])", "k = aten.add_.Tensor(%z, 1)"}, "r") == "P0313");
  CHECK(with({"r = aten.reshape.default(%z, [8])", "k = aten.add_.Tensor(%r, 1)"}, "k") ==
        "z = exp.default(x)\nr = reshape.default(z, [8])\nk = add.Tensor(r, 1)\nk");
  CHECK(with({"k = aten.unsqueeze_.default(%z, 0)"}, "k") == "P0313");
  // A view that piper lacks is named where it is read, and is no copy where it is written.
  CHECK(with({"d = aten.diagonal.default(%z)", "k = aten.add_.Tensor(%d, 1)"}, "z") == "P0313");
}

TEST_CASE("the model's own state is not changed") {
  for (const Origin origin : {Origin::kParameter, Origin::kBuffer, Origin::kConstant})
    CHECK(rewritten({"k = aten.add_.Tensor(%p, 1)", "r = aten.neg.default(%p)"}, "r", {{"p", origin}}) == "P0314");
  CHECK(rewritten({"k = aten.add_.Tensor(%p, 1)", "r = aten.neg.default(%p)"}, "r", {{"p", Origin::kInput}}) ==
        "k = add.Tensor(p, 1)\nr = neg.default(k)\nr");
  // A counter that no kernel reads.
  Program p = program({"k = aten.add_.Tensor(%b, 1)", "r = aten.neg.default(%x)"}, "r");
  p.placeholders["b"] = "norm.num_batches_tracked";
  CHECK(frontend::aten::functionalise(p, {{"b", Origin::kBuffer}}).ok());
}

// Under no_grad PyTorch keeps the gradient of a tensor that is written into; that cannot be kept here.
TEST_CASE("changes without gradient") {
  Program p = program({"h = aten.mul.Tensor(%x, %w)", "k = aten.add_.Tensor(%h, 1)"}, "h");
  p.calls[1].no_grad = true;
  const Status refused = frontend::aten::functionalise(p, {{"w", Origin::kParameter}});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == "P0313");
  Program q = program({"h = aten.mul.Tensor(%x, %w)", "k = aten.add_.Tensor(%h, 1)"}, "h");
  q.calls[0].no_grad = q.calls[1].no_grad = true;
  CHECK(frontend::aten::functionalise(q, {{"w", Origin::kParameter}}).ok());
}

// A chain of views as long as a file can hold ends with a diagnostic, not with the stack.
TEST_CASE("very many views") {
  std::vector<std::string> lines = {"v0 = aten.exp.default(%x)"};
  for (int i = 0; i < 5000; ++i)
    lines.push_back("v" + std::to_string(i + 1) + " = aten.alias.default(%v" + std::to_string(i) + ")");
  lines.push_back("k = aten.add_.Tensor(%v0, 1)");
  CHECK(rewritten(lines, "v5000") == "P0313");
}
