// Rule 12 on plans that piperc makes of weights which are cut over places: all is proved, and programs and sums that
// were changed are refused.
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "schemas/plan/attrs.h"
#include "schemas/verify/verify.h"
#include "tests/unit/compiled_plans.h"

using namespace piper;
using namespace piper::plan;

namespace {

std::string cutting(const std::string& ranks, const std::string& over, const std::string& more = "") {
  return "piper: 1\nmodel: {batch: 8}\noptimizer: {sgd: {lr: 0.1}}\ndirectives:\n"
         "  - {op: split, num_microbatches: 2}\n" +
         (ranks.empty() ? "" : "  - {op: replicate, filter: {}, devices: " + ranks + more + "}\n") +
         "  - {op: shard, filter: {}, dim: column, over: " + over + "}\n";
}
const std::string kPair = cutting("", "[[0, 1]]");
// Tables and logits too: 19 rows, which neither 2 nor 4 places share equally.
std::string cutting_tables(const std::string& ranks, const std::string& over, const std::string& more = "") {
  return cutting(ranks, over, more) + "  - {op: shard, filter: {}, dim: vocabulary, over: " + over + "}\n";
}
const std::string kTables = cutting_tables("", "[[0, 1]]");
const std::string kFour = cutting("[0, 1, 2, 3]", "[[0, 1], [2, 3]]", ", shard_grads: true");

bool is_value_sum(const Bundle& bundle, const Action& action) {
  const auto* const sum = std::get_if<AllReduce>(&action);
  if (sum == nullptr) return false;
  const std::vector<int32_t>& group = bundle.manifest.cuts[0].groups[0];
  return bundle.ranks[0].communicators[static_cast<size_t>(sum->communicator)].ranks == group;
}

// Programs of which a parameter is cut, and those with shares.
std::vector<Program*> cut_programs(Bundle& bundle) {
  std::vector<Program*> found;
  for (Program& program : bundle.programs)
    if (program.of && std::any_of(program.slots.begin(), program.slots.end(), [](const Slot& s) { return s.cut >= 0; }))
      found.push_back(&program);
  return found;
}
void in_first(Bundle& bundle, const std::string& kernel, const std::function<void(KernelCall&)>& change) {
  for (Program* const program : cut_programs(bundle))
    for (KernelCall& call : program->calls)
      if (call.kernel == kernel) return change(call);
  FAIL("no " << kernel);
}

}  // namespace

TEST_CASE("plans whose weights are cut over places compute the model's gradients and loss") {
  for (const char* model : {"tiny_mlp.onnx", "tiny_gpt.onnx"})
    for (const std::string& strategy : {kPair, kFour}) {
      const auto report = verify::verify(compiled::bundle(model, strategy));
      INFO(strategy << (report.ok() ? describe(report->equality) : report.error().message));
      REQUIRE(report.ok());
      CHECK(report->equality.whole());
    }
}

TEST_CASE("plans whose tables are cut compute the model's gradients and loss, whatever is left of the last part") {
  for (const std::string& strategy : {kTables, cutting_tables("[0, 1, 2, 3]", "[[0, 1, 2, 3]]"),
                                      cutting_tables("[0, 1, 2, 3]", "[[0, 1], [2, 3]]", ", shard_params: true")}) {
    const Bundle bundle = compiled::bundle("tiny_gpt.onnx", strategy);
    const auto report = verify::verify(bundle);
    INFO(strategy << (report.ok() ? describe(report->equality) : report.error().message));
    REQUIRE(report.ok());
    CHECK(report->equality.whole());
    CHECK(std::any_of(bundle.manifest.tensors.begin(), bundle.manifest.tensors.end(), [&](const TensorInfo& tensor) {
      return tensor.cut && tensor.shape[0] % bundle.manifest.cuts[0].places() != 0;
    }));
  }
}

TEST_CASE("look-ups and losses of other rows than the place's own are refused") {
  const auto changed = [](const std::string& kernel, const std::function<void(KernelCall&)>& change) {
    return compiled::verdict("tiny_gpt.onnx", kTables, [&](Bundle& bundle) {
      bool any = false;
      for (Program& program : bundle.programs)
        for (KernelCall& call : program.calls)
          if (call.kernel == kernel && find_attr<int64_t>(call, "whole") != nullptr) any = true, change(call);
      REQUIRE(any);
    });
  };
  const auto set = [](const char* name, int64_t by) {
    return [=](KernelCall& call) { *find_attr<int64_t>(call, name) += by; };
  };
  REQUIRE(compiled::verdict("tiny_gpt.onnx", kTables, [](Bundle&) {}).starts_with("accepted"));
  for (const char* kernel :
       {"embedding", "embedding_backward", "row_lse", "cross_entropy_sum", "cross_entropy_backward"}) {
    INFO(kernel);
    CHECK(changed(kernel, set("whole", 1)) == "P0641");  // a column that is none is in the sum
    CHECK(changed(kernel, set("whole", -1)) == "P0641");
  }
  CHECK(changed("row_lse", set("ignore_index", 1)) == "P0641");
  CHECK(changed("cross_entropy_sum", set("ignore_index", 1)) == "P0641");
  // Without its place a look-up is one of all rows.
  CHECK(changed("embedding", [](KernelCall& call) {
          call.inputs[2] = {};
          std::erase_if(call.attrs, [](const Attr& attr) { return attr.name == "whole"; });
        }).starts_with("P06"));
  // Nothing of the look-up's gradient, or all of it in another row.
  CHECK(changed("embedding_backward", [](KernelCall& call) { call.accumulate = false; }).starts_with("P06"));
  CHECK(changed("embedding_backward", [](KernelCall& call) {
          std::swap(call.inputs[1], call.inputs[2]);
        }).starts_with("P06"));
  // A place that is another number.
  CHECK(changed("row_lse", [](KernelCall& call) {
          call.inputs[2] = call.inputs[1], call.inputs[2].shape = {1};
        }).starts_with("P06"));
}

TEST_CASE("a place that is not the rank's own is refused") {
  CHECK(compiled::verdict("tiny_gpt.onnx", kTables, [](Bundle& bundle) {
          for (RankPlan& plan : bundle.ranks)
            for (ScalarValue& scalar : plan.scalars)
              if (scalar.holds == StepNumber::kPlace) scalar.values[0] = 1 - scalar.values[0];
        }).starts_with("P06"));
}

TEST_CASE("programs on parts that compute something else are refused") {
  const auto changed = [](const std::string& kernel, const std::function<void(KernelCall&)>& change) {
    return compiled::verdict("tiny_gpt.onnx", kPair, [&](Bundle& bundle) { in_first(bundle, kernel, change); });
  };
  CHECK(compiled::verdict("tiny_gpt.onnx", kPair, [](Bundle&) {}).starts_with("accepted"));
  CHECK(changed("linear", [](KernelCall& call) { call.inputs[2] = {}; }) != "accepted");
  CHECK(changed("gelu", [](KernelCall& call) { call.kernel = "silu", call.attrs.clear(); }) == "P0641");
  CHECK(changed("linear_backward_weight", [](KernelCall& call) {
          call.outputs[0].strides = {1, call.outputs[0].shape[0]};  // columns for rows
        }).starts_with("P06"));
}

TEST_CASE("sums over places that are left out, or over other ranks, are refused") {
  // Each of them by itself, on all ranks.
  const auto each = [](const std::function<void(RankPlan&, size_t)>& change) {
    const Bundle sound = compiled::bundle("tiny_gpt.onnx", kFour);
    const auto& instructions = sound.ranks[0].instructions.get();
    size_t tried = 0;
    for (size_t i = 0; i < instructions.size(); ++i) {
      if (!is_value_sum(sound, instructions[i].action)) continue;
      Bundle bundle = sound;
      for (RankPlan& plan : bundle.ranks) change(plan, i);
      INFO("instruction " << i);
      CHECK_FALSE(verify::verify(bundle).ok());
      ++tried;
    }
    CHECK(tried >= 8);  // two blocks, each twice, forward and backward
  };
  each([](RankPlan& plan, size_t i) {
    auto& all = plan.instructions.edit();
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
  });
  each([](RankPlan& plan, size_t i) {
    auto& sum = std::get<AllReduce>(plan.instructions.edit()[i].action);
    for (size_t c = 0; c < plan.communicators.size(); ++c)
      if (plan.communicators[c].ranks.size() == 2 && static_cast<int32_t>(c) != sum.communicator) {
        sum.communicator = static_cast<int32_t>(c);
        break;
      }
  });
}
