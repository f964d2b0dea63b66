// Rule 11 and the rules that an evaluation shares with steps: compiled evaluations are proved, damaged ones refused.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>

#include "schemas/plan/bundle_io.h"
#include "schemas/verify/verify.h"
#include "tests/unit/compiled_plans.h"
#include "tests/unit/temp_folder.h"

using namespace piper;
using namespace piper::plan;

namespace {

const std::string kHead =
    "piper: 1\nmodel: {batch: 8}\noptimizer: {adamw: {lr: 0.001}}\neval: {data: held_out.bin, every: 5, batches: 2}\n";
const std::string kStages =
    "annotate: [{tag: PP, starts: [h.0, h.1]}]\nschedule: {family: 1f1b, microbatches: 2, ranks: [[0, 1], [2, 3]]}\n";

Bundle pipeline() {
  return compiled::bundle("tiny_gpt.onnx",
                          kHead + kStages +
                              "directives:\n"
                              "  - {op: replicate, filter: {PP: 0}, devices: [0, 1]}\n"
                              "  - {op: replicate, filter: {PP: 1}, devices: [2, 3], shard_params: true}\n");
}

RankPlan& evaluation_of(Bundle& bundle, int32_t rank) {
  return bundle.evaluation.at(0).ranks.at(static_cast<size_t>(rank));
}

Buffer& first_of(RankPlan& plan, BufferClass cls) {
  auto& buffers = plan.buffers.edit();
  const auto found = std::find_if(buffers.begin(), buffers.end(), [&](const Buffer& b) { return b.cls == cls; });
  REQUIRE(found != buffers.end());
  return *found;
}

template <class Kind>
size_t first(const RankPlan& plan) {
  const auto found = std::find_if(plan.instructions.begin(), plan.instructions.end(),
                                  [](const Instruction& i) { return std::holds_alternative<Kind>(i.action); });
  REQUIRE(found != plan.instructions.end());
  return static_cast<size_t>(found - plan.instructions.begin());
}

void erase(RankPlan& plan, size_t instruction) {
  auto& all = plan.instructions.edit();
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(instruction));
}

std::string refused(const std::function<void(Bundle&)>& damage) {
  Bundle bundle = pipeline();
  damage(bundle);
  const auto proof = verify::verify(bundle);
  return proof.ok() ? "" : proof.error().code;
}

}  // namespace

TEST_CASE("an evaluation of a pipeline of replicas is proved, and has forwards alone") {
  const Bundle bundle = pipeline();
  REQUIRE(bundle.evaluation.size() == 1);
  CHECK(verify::verify(bundle).ok());
  REQUIRE(bundle.manifest.eval);
  CHECK(bundle.manifest.eval->data == "held_out.bin");
  CHECK(bundle.manifest.eval->every == 5);
  CHECK(bundle.manifest.eval->batches == 2);
  CHECK(bundle.manifest.eval->perplexity);
  const Bundle& evaluation = bundle.evaluation[0];
  CHECK(evaluation.manifest.evaluates);
  REQUIRE(evaluation.ranks.size() == 4);
  for (const Program& program : evaluation.programs) CHECK(program.name.find(".B") == std::string::npos);
  REQUIRE(evaluation.ranks[0].means.size() == 1);
  CHECK(evaluation.ranks[0].means[0].count.buffer >= 0);
  for (size_t rank = 0; rank < 4; ++rank) {
    CHECK(evaluation.ranks[rank].arena_bytes < bundle.ranks[rank].arena_bytes);
    CHECK(std::none_of(evaluation.ranks[rank].placements.begin(), evaluation.ranks[rank].placements.end(),
                       [](const Placement& p) { return p.part.owner; }));
  }
}

TEST_CASE("an evaluation without a term of the loss that has no samples is refuted") {
  Bundle bundle = compiled::bundle("tiny_positions.onnx", kHead);
  CHECK(verify::verify(bundle).ok());
  for (Program& program : bundle.evaluation.at(0).programs)
    if (program.of) {
      REQUIRE(program.calls.back().kernel == Kernel::kAddInto);
      program.calls.pop_back();
    }
  const auto proof = verify::verify(bundle);
  REQUIRE(!proof.ok());
  CHECK(proof.error().code == "P0641");
  CHECK_THAT(proof.error().message, Catch::Contains("no program makes for \"loss\" the model's call 9"));
}

TEST_CASE("an evaluation is read as it was written, and its files are checked with the others") {
  Bundle bundle = pipeline();
  const TempFolder folder;
  const std::string plans = folder / "plans";
  REQUIRE(write_bundle(plans, bundle, {}, {}, WeightMode::kNone).ok());
  const auto code = [&] {
    const auto read = read_bundle(plans);
    return read.ok() ? std::string("ok") : read.error().code;
  };
  const auto read = read_bundle(plans, {1});
  REQUIRE(read.ok());
  CHECK(print_manifest(read->manifest) == print_manifest(bundle.manifest));
  REQUIRE(read->evaluation.size() == 1);
  const Bundle &evaluation = bundle.evaluation[0], &found = read->evaluation[0];
  CHECK(print_manifest(found.manifest) == print_manifest(evaluation.manifest));
  REQUIRE(found.ranks.size() == 1);
  CHECK(print_rank_plan(found.ranks[0], found.provenance, found.programs) ==
        print_rank_plan(evaluation.ranks[1], evaluation.provenance, evaluation.programs));
  // It is a bundle of its own, except constants, which are its training's and were not written here.
  auto alone = read_bundle(plans + "/eval");
  REQUIRE(alone.ok());
  CHECK(alone->constants.empty());
  alone->constants = evaluation.constants;
  CHECK(verify::verify(*alone).ok());
  SECTION("another manifest") {
    std::ofstream(plans + "/eval/manifest.json", std::ios::app) << "\n";
    CHECK(code() == "P0604");
  }
  SECTION("another plan") {
    std::ofstream(plans + "/eval/ranks/rank-00000.json", std::ios::app) << "\n";
    CHECK(code() == "P0604");
  }
  SECTION("none") {
    std::filesystem::remove_all(plans + "/eval");
    CHECK(code() != "ok");
  }
}

TEST_CASE("an evaluation that meddles with its training is refused") {
  SECTION("parameters in another place") {
    CHECK(refused([](Bundle& b) { first_of(evaluation_of(b, 0), BufferClass::kParameter).offset += 1 << 20; }) ==
          "P0639");
  }
  SECTION("sums where the training has its own") {
    CHECK(refused([](Bundle& b) { first_of(evaluation_of(b, 0), BufferClass::kGradient).offset = 0; }) == "P0639");
  }
  SECTION("other streams") {
    CHECK(refused([](Bundle& b) { evaluation_of(b, 1).streams.edit()[0].name = "elsewhere"; }) == "P0639");
  }
  SECTION("another channel") {
    CHECK(refused([](Bundle& b) {
            for (int32_t rank = 0; rank < 4; ++rank)
              for (Channel& channel : evaluation_of(b, rank).channels) channel.id += 7;
          }) == "P0639");
  }
  SECTION("another communicator") {
    CHECK(refused([](Bundle& b) {
            for (int32_t rank = 2; rank < 4; ++rank)
              for (Communicator& communicator : evaluation_of(b, rank).communicators) communicator.name += "'";
          }) == "P0639");
  }
  SECTION("labels fed as tokens") {
    const auto feed_tokens = [](Bundle& b) {
      for (InputDecl& input : b.evaluation[0].manifest.inputs) input.feed = Feed::kTokens;
    };
    CHECK(refused(feed_tokens) == "P0641");
    CHECK(refused([&](Bundle& b) {
            feed_tokens(b);
            b.evaluation[0].reference.clear();
            b.evaluation[0].manifest.proved = 0;
          }) == "P0639");
  }
  SECTION("another part of a tensor") {
    CHECK(refused([](Bundle& b) {
            Placement part = evaluation_of(b, 0).placements.at(0);
            part.part.count = 1;
            evaluation_of(b, 0).placements.push_back(part);
          }) == "P0639");
  }
  SECTION("a statistic that it writes") {
    CHECK(refused([](Bundle& b) {
            Bundle& evaluation = b.evaluation.at(0);
            Program spoil;
            spoil.name = "spoil";
            spoil.slots = {{"statistic", SlotRole::kState, 4, false, true}};
            KernelCall fill;
            fill.kernel = "fill";
            fill.outputs = {{0, 0, DType::kF32, {}, {}}};
            fill.attrs = {{"shape", std::vector<int64_t>{}}, {"value", 0.0}, {"to", std::string("f32")}};
            spoil.calls = {fill};
            evaluation.programs.push_back(spoil);
            RankPlan& plan = evaluation_of(b, 0);
            for (RankPlan* both : {&plan, &b.ranks[0]}) {
              Buffer statistic;
              statistic.name = "state statistic";
              statistic.cls = BufferClass::kState;
              statistic.bytes = 4;
              both->buffers.edit().push_back(statistic);
            }
            plan.arguments.edit().push_back({"spoil", {{static_cast<int32_t>(plan.buffers.size()) - 1, 0}}});
            Run run;
            run.program = static_cast<int32_t>(evaluation.programs.size()) - 1;
            run.arguments = static_cast<int32_t>(plan.arguments.size()) - 1;
            plan.instructions.edit().push_back({0, run, -1});
          }) == "P0638");
  }
  SECTION("a training in its place") {
    CHECK(refused([](Bundle& b) {
            Bundle training = b;
            training.evaluation.clear();
            b.evaluation[0] = std::move(training);
          }) == "P0639");
  }
}

TEST_CASE("an evaluation is compared with what the model computes in its own") {
  const auto proof = [](const Bundle& bundle) {
    const auto report = verify::verify(bundle);
    REQUIRE(report.ok());
    REQUIRE(report->evaluations.size() == 1);
    return report->evaluations[0];
  };
  const auto refused_with = [](const Bundle& bundle) {
    const auto report = verify::verify(bundle);
    return report.ok() ? "" : report.error().message;
  };
  Bundle bundle = pipeline();
  CHECK(proof(bundle).whole());
  CHECK(proof(bundle).proved == 2);  // a sum and its count
  CHECK(bundle.evaluation[0].manifest.proved == 2);
  SECTION("another activation") {
    for (Program& program : bundle.evaluation[0].programs)
      for (KernelCall& call : program.calls)
        if (call.kernel == "gelu") call.attrs = {{"approximate", std::string("tanh")}};
    CHECK_THAT(refused_with(bundle), Catch::Matchers::Contains("rule 12") && Catch::Matchers::Contains("(gelu of"));
  }
  SECTION("a count in the place of its sum") {
    Mean& mean = evaluation_of(bundle, 0).means[0];
    std::swap(mean.sum, mean.count);
    CHECK_THAT(refused_with(bundle), Catch::Matchers::Contains("holds \"loss count\" as \"loss\""));
  }
  SECTION("less than was proved") {
    bundle.evaluation[0].manifest.proved = 2;
    bundle.evaluation[0].reference.clear();
    CHECK_THAT(refused_with(bundle), Catch::Matchers::Contains("of the 2 terms of the loss and counts"));
  }
  SECTION("a tensor without elements") {
    for (TensorInfo& tensor : bundle.evaluation[0].manifest.tensors) tensor.shape = {0};
    CHECK(refused_with(bundle) != "");
  }
  SECTION("running statistics, and no sum over pieces") {
    const Bundle normed = compiled::bundle("hazards.onnx", kHead +
                                                               "per_microbatch: [norm]\ndirectives:\n"
                                                               "  - {op: split, num_microbatches: 2}\n");
    CHECK(proof(normed).whole());
    CHECK(proof(normed).mixing.empty());
  }
}

TEST_CASE("an evaluation is proved like a step") {
  SECTION("a message that is missing") {
    CHECK(refused([](Bundle& b) { erase(evaluation_of(b, 2), first<Recv>(evaluation_of(b, 2))); }) == "P0631");
  }
  SECTION("a forward that is missing") {
    CHECK(refused([](Bundle& b) {
            RankPlan& plan = evaluation_of(b, 2);
            const auto& all = plan.instructions;
            for (size_t i = all.size(); i-- > 0;)
              if (const auto* run = std::get_if<Run>(&all[i].action))
                if (b.evaluation[0].programs[static_cast<size_t>(run->program)].name.find(".F.") != std::string::npos)
                  return erase(plan, i);
          }) == "P0636");
  }
  SECTION("a gather that is missing") {
    CHECK(refused([](Bundle& b) {
            for (int32_t rank = 2; rank < 4; ++rank)
              erase(evaluation_of(b, rank), first<AllGather>(evaluation_of(b, rank)));
          }) == "P0634");
  }
  SECTION("a loss that is not reported") {
    CHECK(refused([](Bundle& b) { evaluation_of(b, 0).means.clear(); }) == "P0636");
  }
  SECTION("a loss that is no sum") {
    CHECK(refused([](Bundle& b) {
            RankPlan& plan = evaluation_of(b, 0);
            plan.means[0].sum = {
                static_cast<int32_t>(std::find_if(plan.buffers.begin(), plan.buffers.end(),
                                                  [](const Buffer& x) { return x.cls == BufferClass::kParameter; }) -
                                     plan.buffers.begin()),
                0};
          }) == "P0636");
  }
}
