// The text forms of the DAG and of the lay-out of state, the rules of both, and passes on a DAG that sums a value of
// the forward over the ranks of a replica.
#include <catch2/catch.hpp>

#include <string>

#include "compiler/ir/module_text.h"
#include "compiler/passes/lay_out_state.h"
#include "compiler/passes/order_nodes.h"

namespace piper::ir {
namespace {

// Three chunks on two ranks: what the first makes both sum, which is all that the second does, before the third reads
// it; a bucket of each kind.
const std::string kModule =
    R"(module {
  step batch 8 microbatches 2 split
  training clip 1.5 by 0 update 0
}
provenance {
  prov 0 unknown "test"
}
variant 2 {
  chunk 0 "PP0" region 0
  chunk 1 "PP0.sum" region 0 exchange
  chunk 2 "PP1" region 1
  graph {
    prov 0 unknown "test"
    %x = input "x" : f32[2, 4]
    %w = parameter ["w"] : f32[4, 4]
    %v = parameter ["v"] : f32[4, 4]
    %share = matmul(%x, %w) : f32[2, 4] chunk 0 prov 0
    %y = all_reduce(%share) : f32[2, 4] chunk 1 prov 0
    %z = matmul(%y, %v) : f32[2, 4] chunk 2 prov 0
    output "z" = %z
  }
}
distribution {
  world 3
  stream 0 "compute"
  stream 1 "tp"
  group 0 [0..1] places 2
  group 1 [2]
  teams 0 [[0..1]]
  teams 1 [[1], [0]]
  chunk 0 {
    groups [0 x2]
  }
  chunk 1 {
    groups [0 x2]
  }
  chunk 2 {
    groups [0 x2]
  }
}
dag {
  scalar 0 "loss" "loss of the step" "the loss" f32 [] read by log
  scalar 1 "n" "count of a mean loss" "a count" f32 [] read by mean_loss value %y
  scalar 2 "norms" "gradient norms" "the gradient norms" f32 [2] read by clipping
  scalar 3 "scale" "scale" "scale" f32 [] read by updates
  node 0 compute F 0 0 on 0 stream 0 by 0
  node 1 compute F 0 1 on 0 stream 0
  node 2 compute F 2 0 on 0 stream 0
  node 3 compute F 2 1 on 0 stream 0
  node 4 all_reduce value F 1 0 %y teams 0 f32 on 0 stream 1 by 0
  node 5 all_reduce value F 1 1 %y teams 0 f32 on 0 stream 1
  node 6 take 0 on 0 stream 0
  node 7 all_reduce scalar 0 teams 0 f32 on 0 stream 1
  node 8 transfer scalar 0 to 1 on 0 stream 1
  node 9 reduce_scatter gradients 0 microbatches [0..1] teams 0 f32 on 0 stream 1
  node 10 all_gather parameters 0 for [F 2 0] teams 0 f32 on 0 stream 1
  node 11 transfer use 1 to 1 on 0 stream 1
  node 12 combine 0 on 0 stream 0
  node 13 measure 2 on 0 stream 0
  node 14 clip 2 0 3 on 0 stream 0
  node 15 finish_counts 0 on 0 stream 0
  node 16 transfer value F 2 0 %z to 1 on 0 stream 1
  node 17 update 0 on 0 stream 0
  edges 0 [4]
  edges 1 [5]
  edges 4 [2]
  edges 5 [3]
  edges 2 [6, 16, 9]
  before 3 2 @0:9:3+5
  edges 6 [7]
  edges 7 [8]
  edges 9 [17, 12..14]
}
state {
  accumulator 0 parameter 0 chunks [0] group 0 bucket 0 offset 0 bytes 64
  accumulator 1 parameter 1 chunks [2] group 0 bucket 1 offset 64 bytes 64
  bucket 0 "PP0/w" group 0 teams 0 of 2 accumulators [0] bytes 128)"
    R"( moments part gradients part parameters part residency microbatch prefetch 2 stream 1 gather 1 by 0
  bucket 1 "PP1/v" group 0 teams 1 of 1 accumulators [1] bytes 128)"
    R"( moments whole gradients whole parameters whole residency use prefetch 1 stream 0 gather 0
  gather bucket 0 reader 2 from 10
  clear bucket 0 microbatch 1 before 3
}
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

Module parsed(const std::string& text) {
  Result<Module> module = parse_module(text, "m.pir");
  INFO((module.ok() ? "" : module.error().message));
  REQUIRE(module.ok());
  return std::move(module).value();
}

// The code of what is wrong once the first `from` of the module above is `to`.
std::string broken(const std::string& from, const std::string& to) {
  Result<Module> module = parse_module(replaced(kModule, from, to), "m.pir");
  const Status status = module.ok() ? verify(*module) : module.take_status();
  return status.ok() ? "" : status.error().code;
}

}  // namespace

TEST_CASE("a module with a DAG and state prints as it was read, and breaks no rule") {
  const Module module = parsed(kModule);
  const std::string text = print(module);
  CHECK(text == kModule);
  CHECK(print(parsed(text)) == text);
  const Status status = verify(module);
  INFO((status.ok() ? "" : status.error().message));
  CHECK(status.ok());
}

// What a sum does not say of its types is as the elements are, whatever these are.
TEST_CASE("types of a sum that are not said are those of its elements") {
  const std::string text = replaced(replaced(kModule, "scalar 0 \"loss\" \"loss of the step\" \"the loss\" f32",
                                             "scalar 0 \"loss\" \"loss of the step\" \"the loss\" i64"),
                                    "scalar 0 teams 0 f32 on 0", "scalar 0 teams 0 i64 on 0");
  const Module module = parsed(text);
  CHECK(std::get<CollectiveNode>(module.dag.nodes[7].payload).types == plan::SumTypes(DType::kI64));
  CHECK(print(module) == text);
}

TEST_CASE("a DAG's text that says what there is not is refused where it stands") {
  CHECK(broken("node 1 compute", "node 2 compute") == "P0402");
  CHECK(broken("node 1 compute F 0 1", "node 1 compute F 3 1") == "P0402");
  CHECK(broken("all_reduce value F 1 0 %y", "all_reduce value F 1 0 %none") == "P0402");
  CHECK(broken("read by log", "read by nobody") == "P0402");
  CHECK(broken("parameter 1 chunks", "parameter 2 chunks") == "P0402");
}

TEST_CASE("each rule of the DAG is held") {
  CHECK(broken("on 0 stream 0 by 0", "on 2 stream 0 by 0") == "P0450");
  CHECK(broken("take 0", "take 4") == "P0450");
  CHECK(broken("gradients 0 microbatches [0..1]", "gradients 0 microbatches [2]") == "P0450");
  CHECK(broken("node 1 compute F 0 1", "node 1 compute F 0 0") == "P0451");
  CHECK(broken("%y teams 0 f32", "%y teams 0 i64") == "P0452");
  CHECK(broken("%y teams 0 f32", "%y teams 1 f32") == "P0452");
  CHECK(broken("teams 0 [[0..1]]", "teams 0 [[0..2]]") == "P0462");
  CHECK(broken("scalar 0 teams 0 f32 on 0", "scalar 0 teams 0 f32 on 1") == "P0452");
  CHECK(broken("transfer scalar 0 to 1", "transfer scalar 0 to 0") == "P0453");
  CHECK(broken("edges 0 [4]", "edges 0 [44]") == "P0454");
  CHECK(broken("  edges 9 [17, 12..14]\n", "  edges 9 [17, 12..14]\n  order [0..17]\n") == "P0455");
  CHECK(broken("edges 9 [17, 12..14]", "edges 9 [12..14]") == "P0456");
}

TEST_CASE("each rule of the lay-out of state is held") {
  CHECK(broken("group 0 bucket 0 offset", "group 0 bucket 2 offset") == "P0460");
  CHECK(broken("offset 64 bytes 64", "offset 128 bytes 64") == "P0461");
  CHECK(broken("teams 1 of 1", "teams 1 of 2") == "P0462");
  CHECK(broken("moments part gradients part", "moments whole gradients part") == "P0463");
  CHECK(broken("gather bucket 0 reader 2 from 10", "gather bucket 0 reader 2 from 9") == "P0464");
  CHECK(broken("prefetch 2 stream 1 gather 1", "prefetch 2 stream 1 gather 1 dtype bf16") == "P0466");
  CHECK(broken("clear bucket 0", "clear bucket 1") == "P0465");
}

TEST_CASE("a value of the forward is summed behind the pass that makes it and before its readers") {
  Module module = parsed(replaced(kModule, "  before 3 2 @0:9:3+5\n", ""));
  diag::Diagnostics diags;
  REQUIRE(passes::order_nodes(module, diags).ok());
  passes::lay_out_state(module);
  const Status status = verify(module);
  INFO((status.ok() ? "" : status.error().message));
  CHECK(status.ok());
  std::vector<size_t> place(module.dag.nodes.size());
  for (size_t i = 0; i < module.dag.order.size(); ++i) place[module.dag.order[i].index] = i;
  CHECK(place[0] < place[4]);
  CHECK(place[4] < place[2]);
  // Communication takes no time of the devices: the sum is issued as soon as its value is there.
  CHECK(place[4] == place[0] + 1);
  CHECK(module.describe(NodeId(4)) == "all_reduce F of PP0.sum, microbatch 0");
  const std::string text = print(module);
  CHECK(print(parsed(text)) == text);
  CHECK(text.find("owners parameters [0 x2] buffers [] unread []") != std::string::npos);
}

}  // namespace piper::ir
