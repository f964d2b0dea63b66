// What a rank has of each value of a graph whose parameters are cut, and how lowering keeps it: views and sums over
// places are no programs, sums lie where their addends do, slots say what is a part or a share.
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "compiler/autodiff/autodiff.h"
#include "compiler/emit/lower_programs.h"
#include "compiler/ir/module_text.h"
#include "compiler/ir/spreads.h"
#include "compiler/passes/add_backward.h"

namespace piper {
namespace {

using plan::Spread;

// A pair of products over two places, between what enters and what is added up; `more` reads something else.
std::string pair_of(const std::string& more) {
  return R"(module {
  step batch 4 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "all" region 0
  chunk 1 "all.enter" region 0 exchange
  chunk 2 "all.rest" region 0
  chunk 3 "all.sum" region 0 exchange
  chunk 4 "all.rest.2" region 0
  graph {
    %x = input "x" : f32[2, 3]
    %in = parameter ["in"] : f32[3, 3]
    %up = parameter ["up"] : f32[4, 3] cut 0 axis 0 places 2
    %down = parameter ["down"] : f32[3, 4] cut 0 axis 1 places 2
    %stream = linear(%x, %in, none) chunk 0
    %entered = enter(%stream) chunk 1
    %h = linear(%entered, %up, none) chunk 2
    %a = relu(%h) chunk 2
    %made = linear(%a, %down, none) chunk 2
    %sum = all_reduce(%made) chunk 3
    %y = add(%sum, %stream) chunk 4
)" + more +
         R"(
    %loss = sum(%y) {dims=[0, 1], keepdim=false} chunk 4
    loss %loss
  }
}
distribution {
  world 2
  stream 0 "compute"
  stream 1 "tp"
  group 0 [0..1] places 2
  cut 0 [[0..1]] stream 1 @0:0:0+1
  chunk 0 {
    groups [0]
  }
  chunk 1 {
    groups [0]
  }
  chunk 2 {
    groups [0]
  }
  chunk 3 {
    groups [0]
  }
  chunk 4 {
    groups [0]
  }
}
)";
}

ir::Module lowered(const std::string& text) {
  Result<ir::Module> module = ir::parse_module(text, "m.pir");
  INFO((module.ok() ? "" : module.error().message));
  REQUIRE(module.ok());
  diag::Diagnostics diags;
  REQUIRE(passes::add_backward(*module, diags).ok());
  emit::lower_programs(*module);
  return std::move(module).value();
}

// For what ops make of one kind in one direction, in their order.
std::vector<Spread> spreads_of(const ir::Graph& graph, ir::OpKind kind, ir::Phase phase) {
  const std::vector<ir::ValueSpread> spreads = ir::find_spreads(graph);
  std::vector<Spread> found;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    if (op.kind != kind || op.phase != phase || op.results.empty()) continue;
    const ir::ValueSpread& spread = spreads[op.results[0].index];
    CHECK(spread.cut == (spread.spread == Spread::kSame ? -1 : 0));
    found.push_back(spread.spread);
  }
  return found;
}

// "made:share" of the slots of a program that say so.
std::string slots_of(const ir::Module& module, uint32_t chunk, ir::Phase phase) {
  std::string text;
  for (const ir::LoweredProgram& program : module.variants[0].lowered.programs) {
    if (program.chunk.index != chunk || program.phase != phase) continue;
    for (const plan::Slot& slot : program.program.slots) {
      if (slot.spread == Spread::kSame) continue;
      text += (text.empty() ? "" : " ") + slot.name + (slot.spread == Spread::kShare ? ":share" : ":part");
      CHECK(slot.cut == 0);
    }
  }
  return text;
}

}  // namespace

TEST_CASE("parts are made of parts, shares are what places add up, gradients likewise") {
  const ir::Module module = lowered(pair_of(""));
  using Spreads = std::vector<Spread>;
  const auto of = [&](ir::OpKind kind, ir::Phase phase) { return spreads_of(module.graph(), kind, phase); };
  CHECK(of(ir::OpKind::kLinear, ir::Phase::kForward) == Spreads{Spread::kSame, Spread::kPart, Spread::kShare});
  CHECK(of(ir::OpKind::kRelu, ir::Phase::kForward) == Spreads{Spread::kPart});
  CHECK(of(ir::OpKind::kAllReduce, ir::Phase::kForward) == Spreads{Spread::kSame});
  CHECK(of(ir::OpKind::kEnter, ir::Phase::kBackward) == Spreads{Spread::kSame});
  CHECK(of(ir::OpKind::kLinearBackwardInput, ir::Phase::kBackward) == Spreads{Spread::kPart, Spread::kShare});
  CHECK(of(ir::OpKind::kAllReduce, ir::Phase::kBackward) == Spreads{Spread::kSame});
}

TEST_CASE("addends of a share are shares, whatever makes them") {
  const auto graph = ir::parse_graph(R"(graph {
    %x = input "x" : f32[2, 4]
    %w = parameter ["w"] : f32[3, 4] cut 0 axis 1 places 2
    %v = parameter ["v"] : f32[3, 4] cut 0 axis 1 places 2
    %a = linear(%x, %w, none)
    %b = linear(%x, %v, none)
    %n = neg(%b)
    %c = add(%a, %n)
    %narrow = cast(%c) {to=bf16}
    %sum = all_reduce(%narrow)
  }
)",
                                     "m.pir");
  REQUIRE(graph.ok());
  using Spreads = std::vector<Spread>;
  for (const ir::OpKind kind : {ir::OpKind::kNeg, ir::OpKind::kAdd, ir::OpKind::kCast})
    CHECK(spreads_of(*graph, kind, ir::Phase::kForward) == Spreads{Spread::kShare});
  CHECK(spreads_of(*graph, ir::OpKind::kLinear, ir::Phase::kForward) == Spreads{Spread::kShare, Spread::kShare});
  CHECK(spreads_of(*graph, ir::OpKind::kAllReduce, ir::Phase::kForward) == Spreads{Spread::kSame});
}

TEST_CASE("chunks that are conversions have no programs, and a phase where ranks send something") {
  const ir::Module module = lowered(pair_of(""));
  for (const ir::LoweredProgram& program : module.variants[0].lowered.programs)
    CHECK_FALSE(module.chunks()[program.chunk.index].exchange);
  CHECK_FALSE(module.shapes[1].has_phase(ir::Phase::kForward));
  CHECK(module.shapes[1].has_phase(ir::Phase::kBackward));
  CHECK(module.shapes[3].has_phase(ir::Phase::kForward));
  CHECK_FALSE(module.shapes[3].has_phase(ir::Phase::kBackward));
  CHECK(slots_of(module, 0, ir::Phase::kForward).empty());
  CHECK(slots_of(module, 2, ir::Phase::kForward) == "made:share");
  CHECK(slots_of(module, 2, ir::Phase::kBackward) == "linear_backward_input_2:share");
  CHECK(slots_of(module, 4, ir::Phase::kForward).empty());
}

TEST_CASE("a sum over places lies where its addend does, unless something else reads that") {
  const ir::Module alone = lowered(pair_of(""));
  REQUIRE(alone.variants[0].lowered.exchanges.size() == 2);
  for (const ir::Exchange& exchange : alone.variants[0].lowered.exchanges) CHECK(exchange.in_place);
  const ir::Module read = lowered(pair_of("    %square = mul(%made, %made) chunk 4\n    dropped %square\n"));
  for (const ir::Exchange& exchange : read.variants[0].lowered.exchanges)
    CHECK(exchange.in_place == (exchange.phase == ir::Phase::kBackward));
}

}  // namespace piper
