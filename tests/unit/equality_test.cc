// Rule 12: plans compute what the model computes on one device, and programs that were changed do not.
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <string>

#include "schemas/plan/bundle_io.h"
#include "schemas/plan/names.h"
#include "schemas/timeline/timeline.h"
#include "schemas/verify/numbers/casts.h"
#include "schemas/verify/numbers/equality.h"
#include "schemas/verify/verify.h"
#include "tests/unit/compiled_plans.h"

using namespace piper;
using namespace piper::plan;

namespace {

const std::string kOptimizer = "optimizer: {adamw: {lr: 1.0e-3}}\nclip_grad_norm: 1.0\n";
const std::string kOneDevice = "piper: 1\nmodel: {batch: 12}\n" + kOptimizer;
const std::string kMicrobatches =
    "piper: 1\nmodel: {batch: 12}\ndirectives: [{op: split, num_microbatches: 3}]\n" + kOptimizer;
const std::string kSamplesOneByOne =
    "piper: 1\nmodel: {batch: 4}\ndirectives: [{op: split, num_microbatches: 4}]\n" + kOptimizer;
const std::string kReplicas =
    "piper: 1\nmodel: {batch: 8}\ndirectives:\n  - {op: place, filter: {}, devices: [0, 1]}\n"
    "  - {op: replicate, filter: {}, devices: [0, 1]}\n" +
    kOptimizer;
const std::string kPipelineOfReplicas =
    "piper: 1\nmodel: {batch: 16}\nannotate:\n  - {tag: PP, starts: [layers.0, layers.2]}\ndirectives:\n"
    "  - {op: place, filter: {PP: 0}, devices: [0, 1]}\n  - {op: place, filter: {PP: 1}, devices: [2, 3]}\n"
    "  - {op: replicate, filter: {PP: 0}, devices: [0, 1], bucket_size: 1}\n"
    "  - {op: replicate, filter: {PP: 1}, devices: [2, 3], bucket_size: 1}\n"
    "schedule: {family: 1f1b, microbatches: 4}\n" +
    kOptimizer;
const std::string kUnequalGroups =
    "piper: 1\nmodel: {batch: 8}\nannotate:\n  - {tag: PP, starts: [layers.0, layers.2]}\ndirectives:\n"
    "  - {op: place, filter: {PP: 0}, devices: [0, 1]}\n  - {op: place, filter: {PP: 1}, devices: [2]}\n"
    "  - {op: replicate, filter: {PP: 0}, devices: [0, 1]}\n"
    "schedule: {family: gpipe, microbatches: 2}\n" +
    kOptimizer;

std::string two_stages(const std::string& more) {
  return "piper: 1\nmodel: {batch: 8}\nannotate:\n  - {tag: PP, starts: [h.0, h.1]}\n" + more + kOptimizer;
}
const std::string kOfGpt[] = {
    kOneDevice,
    kSamplesOneByOne,
    two_stages("schedule: {family: gpipe, microbatches: 2, ranks: [[0], [1]]}\n"),
    two_stages("schedule: {family: zero_bubble, microbatches: 2, ranks: [[0], [1]]}\n"),
    two_stages("schedule: {family: 1f1b, microbatches: 2, ranks: [[0, 1], [2, 3]]}\n"),
    two_stages("directives: [{op: recompute, filter: {PP: 0}}]\n"
               "schedule: {family: 1f1b, microbatches: 2, ranks: [[0], [1]]}\n"),
    two_stages("directives:\n  - {op: place, filter: {}, devices: [0, 1]}\n"
               "  - {op: replicate, filter: {}, devices: [0, 1], shard_params: true}\n"),
    two_stages("precision: {compute: bf16}\nschedule: {family: 1f1b, microbatches: 2, ranks: [[0], [1]]}\n"),
};
constexpr int kTensorsOfGpt = 28;

Bundle mlp(const std::string& strategy) { return compiled::bundle("tiny_mlp.onnx", strategy); }

// What rule 12 says of the plans: "proved 7", "open", or the refutation.
std::string answer(const Bundle& bundle) {
  const auto report = verify::check_equality(bundle);
  if (!report.ok()) {
    CHECK(report.error().code == "P0641");
    return report.error().message;
  }
  if (!report->looked) return "no reference";
  return report->whole() ? "proved " + std::to_string(report->proved) : describe(*report);
}

// The first call of a kernel in a program whose pass is `pass`.
KernelCall& call_of(Bundle& bundle, const std::string& pass, const std::string& kernel) {
  for (Program& program : bundle.programs)
    if (program.of && pass_name(program.of->pass) == pass)
      for (KernelCall& call : program.calls)
        if (call.kernel == kernel) return call;
  FAIL("no " << kernel << " in " << pass);
  return bundle.programs[0].calls[0];
}
Program& program_of(Bundle& bundle, const std::string& pass) {
  for (Program& program : bundle.programs)
    if (program.of && pass_name(program.of->pass) == pass) return program;
  FAIL("no " << pass);
  return bundle.programs[0];
}
using Catch::Contains;

// Every name read backwards, except those of the model and of the strategy: what is alike stays alike, and no letter
// says what a thing is.
void shuffle(std::string& name) {
  std::reverse(name.begin(), name.end());
  name = "~" + name;
}
void rename(Bundle& bundle) {
  for (Chunk& chunk : bundle.manifest.chunks) {
    shuffle(chunk.name);
    shuffle(chunk.region);
  }
  for (Program& program : bundle.programs) {
    shuffle(program.name);
    for (Slot& slot : program.slots) shuffle(slot.name);
    for (KernelCall& call : program.calls) call.origin = "elsewhere";
  }
  for (RankPlan& plan : bundle.ranks) {
    for (Stream& stream : plan.streams.edit()) shuffle(stream.name);
    for (Communicator& communicator : plan.communicators) shuffle(communicator.name);
    for (Channel& channel : plan.channels) shuffle(channel.name);
    for (std::string& event : plan.events.edit()) shuffle(event);
    for (Buffer& buffer : plan.buffers.edit()) shuffle(buffer.name);
    for (ArgumentList& list : plan.arguments.edit()) shuffle(list.name);
  }
  for (Bundle& evaluation : bundle.evaluation) rename(evaluation);
}

std::string spans_of(const Bundle& bundle) {
  const auto played = timeline::simulate(bundle, timeline::Costs());
  REQUIRE(played.ok());
  std::string text = std::to_string(played->step);
  for (const auto& spans : played->spans)
    for (const timeline::Span& span : spans)
      text +=
          " " + std::to_string(span.instruction) + ":" + std::to_string(span.begin) + "-" + std::to_string(span.end);
  return text;
}

}  // namespace

TEST_CASE("plans of the MLP compute the model's gradients and loss under every composition") {
  for (const std::string* strategy :
       {&kOneDevice, &kMicrobatches, &kSamplesOneByOne, &kReplicas, &kPipelineOfReplicas, &kUnequalGroups}) {
    INFO(*strategy);
    CHECK(answer(mlp(*strategy)) == "proved 7");  // six parameters and the loss
  }
}

TEST_CASE("the reference has the same bytes under every strategy of one model") {
  const Bundle one = mlp(kOneDevice);
  REQUIRE(one.reference.size() == 1);
  const std::string text = print_reference(one.reference[0]);
  for (const std::string* strategy : {&kMicrobatches, &kSamplesOneByOne, &kReplicas, &kPipelineOfReplicas})
    CHECK(print_reference(mlp(*strategy).reference.at(0)) == text);
  const auto read = parse_reference(text, "reference.json");
  REQUIRE(read.ok());
  CHECK(print_reference(*read) == text);
}

// The reference is the model's own step: nothing that cuts a batch has a part in it.
TEST_CASE("positions, means and terms without samples are those of the uncut step, however it is cut") {
  for (const std::string* strategy : {&kOneDevice, &kMicrobatches, &kReplicas}) {
    INFO(*strategy);
    CHECK(answer(compiled::bundle("tiny_positions.onnx", *strategy)) == "proved 6");  // five parameters and the loss
  }
  // An axis of one before one sample may pass for the samples.
  CHECK_THAT(answer(compiled::bundle("tiny_positions.onnx", kSamplesOneByOne)),
             Contains("proved in part: 5") && Contains("not proved for 1, as \"loss\": microbatches of one sample"));
  const Bundle sound = compiled::bundle("tiny_positions.onnx", kMicrobatches);
  const std::string text = print_reference(sound.reference.at(0));
  CHECK_THAT(text, Contains("\"each\":1") && Contains("\"call\":\"mean\"") && !Contains("sample_offset"));
  const auto read = parse_reference(text, "reference.json");
  REQUIRE(read.ok());
  CHECK(print_reference(*read) == text);
  // Numbers of samples that are not the piece's own.
  Bundle moved = sound;
  for (ConstantContent& constant : moved.constants)
    if (constant.dtype == DType::kI64) constant.sha256.assign(64, '0');
  CHECK_THAT(answer(moved), Contains("rule 12: on the way to \"grad"));
}

TEST_CASE("gradients that are divided by how often the batch names a row are of the step alone") {
  CHECK(answer(compiled::bundle("tiny_frequencies.onnx", kOneDevice)) == "proved 4");
}

// What a token stream feeds to an input is part of the model's step.
TEST_CASE("a manifest that feeds an input with something else is refused") {
  const Bundle sound = compiled::bundle("tiny_gpt.onnx", kOneDevice);
  const std::string text = print_reference(sound.reference.at(0));
  CHECK_THAT(text, Contains("\"feed\":\"tokens\"") && Contains("\"feed\":\"next_tokens\""));
  const auto read = parse_reference(text, "reference.json");
  REQUIRE(read.ok());
  CHECK(print_reference(*read) == text);
  const auto fed = [&sound](Feed from, Feed to) {
    Bundle b = sound;
    for (InputDecl& input : b.manifest.inputs)
      if (input.feed == from) input.feed = to;
    return answer(b);
  };
  CHECK(fed(Feed::kTokens, Feed::kNextTokens) ==
        "rule 12: the manifest feeds \"next_tokens\" of a token stream to input \"input_ids\", the model takes "
        "\"tokens\" of a "
        "token stream");
  CHECK_THAT(fed(Feed::kNextTokens, Feed::kNone), Contains("feeds tensors of its own to input"));
  std::string other = text;
  other.replace(other.find("\"tokens\""), 8, "\"words\"");
  CHECK_THAT(parse_reference(other, "r").status().error().message, Contains("unknown feed \"words\""));
  other = text;
  other.replace(other.find("\"reference\":3"), 13, "\"reference\":1");
  CHECK_THAT(parse_reference(other, "r").status().error().message, Contains("a reference of version 1, not 3"));
}

TEST_CASE("a program that was changed does not compute the model's gradients") {
  const Bundle sound = mlp(kPipelineOfReplicas);
  Bundle b = sound;
  SECTION("operands of a difference exchanged") {
    KernelCall& call = call_of(b, "F", "sub");
    std::swap(call.inputs[0], call.inputs[1]);
    CHECK_THAT(answer(b), Contains("sub of \"mse_loss at make_models.py:28\""));
  }
  SECTION("a square weight read transposed in the backward") {
    KernelCall* square = nullptr;
    for (Program& program : b.programs)
      for (KernelCall& call : program.calls)
        if (call.kernel == "linear_backward_input" && call.inputs[1].shape[0] == call.inputs[1].shape[1])
          square = &call;
    REQUIRE(square != nullptr);
    std::swap(square->inputs[1].strides[0], square->inputs[1].strides[1]);
    CHECK_THAT(answer(b), Contains("linear_backward_input of \"linear_1 (layers.1) at make_models.py:27\""));
  }
  SECTION("an accumulation that stands twice") {
    Program& program = program_of(b, "B");
    const auto call = std::find_if(program.calls.begin(), program.calls.end(),
                                   [](const KernelCall& c) { return c.kernel == "linear_backward_weight"; });
    REQUIRE(call != program.calls.end());
    program.calls.insert(call, KernelCall(*call));
    CHECK_THAT(answer(b), Contains("linear_backward_weight of"));
  }
  SECTION("an accumulation that is left out") {
    Program& program = program_of(b, "B");
    program.calls.erase(std::find_if(program.calls.begin(), program.calls.end(),
                                     [](const KernelCall& c) { return c.kernel == "linear_backward_weight"; }));
    CHECK_THAT(answer(b), Contains("no program makes for \"grad layers.1.weight\"") &&
                              Contains("linear_backward_weight of \"linear_1 (layers.1) at make_models.py:27\""));
  }
  SECTION("values of the saved block exchanged") {
    b = mlp(kOneDevice);
    Program& program = program_of(b, "B");
    std::vector<KernelCall*> readers;
    for (KernelCall& call : program.calls)
      if (call.kernel == "tanh_backward") readers.push_back(&call);
    REQUIRE(readers.size() == 2);
    std::swap(readers[0]->inputs[1].offset, readers[1]->inputs[1].offset);
    CHECK_THAT(answer(b), Contains("tanh_backward of \"tanh_1 at make_models.py:27\""));
  }
  SECTION("another attribute") {
    for (Attr& attr : call_of(b, "B", "sum").attrs)
      if (attr.name == "dims") attr.value = std::vector<int64_t>{1};
    CHECK_THAT(answer(b),
               Contains("grad layers.1.bias") && Contains("sum of \"linear_1 (layers.1) at make_models.py:27\""));
  }
  SECTION("a constant of another value") {
    const auto divisor = std::find_if(b.constants.begin(), b.constants.end(),
                                      [](const ConstantContent& constant) { return constant.name == "scalar"; });
    REQUIRE(divisor != b.constants.end());
    divisor->sha256[0] = divisor->sha256[0] == '0' ? '1' : '0';
    CHECK_THAT(answer(b), Contains("div of \"mse_loss at make_models.py:28\""));
  }
  SECTION("a value taken for another where both have the same shape") {
    KernelCall& call = call_of(b, "B", "tanh_backward");
    std::swap(call.inputs[0], call.inputs[1]);
    CHECK_THAT(answer(b), Contains("tanh_backward of \"tanh_1 at make_models.py:27\""));
  }
  SECTION("nothing") { CHECK(answer(b) == "proved 7"); }
}

TEST_CASE("plans of a GPT compute the model's gradients and loss under every composition") {
  for (const std::string& strategy : kOfGpt) {
    INFO(strategy);
    CHECK(answer(compiled::bundle("tiny_gpt.onnx", strategy)) == "proved " + std::to_string(kTensorsOfGpt + 1));
  }
}

TEST_CASE("programs of a GPT that were changed do not compute its gradients") {
  Bundle b = compiled::bundle("tiny_gpt.onnx", kOneDevice);
  SECTION("labels that count in the forward are ignored in the backward") {
    for (Attr& attr : call_of(b, "B", "cross_entropy_backward").attrs)
      if (attr.name == "ignore_index") attr.value = int64_t{3};
    CHECK_THAT(answer(b), Contains("cross_entropy_backward of") && Contains("make_models.py:62"));
  }
  SECTION("labels that count in the loss are left out of its mean") {
    b = compiled::bundle("tiny_gpt.onnx", kMicrobatches);
    for (Attr& attr : call_of(b, "C", "cross_entropy_count").attrs)
      if (attr.name == "ignore_index") attr.value = int64_t{3};
    CHECK_THAT(answer(b), Contains("\"grad h.0.fc.bias\"") &&
                              Contains("reciprocal of \"cross_entropy_loss at make_models.py:62\""));
  }
  SECTION("mean and deviation of a norm exchanged in the saved block") {
    KernelCall& call = call_of(b, "B", "layer_norm_backward_input");
    std::swap(call.inputs[2].offset, call.inputs[3].offset);
    CHECK_THAT(answer(b), Contains("layer_norm_backward_input of"));
  }
  SECTION("keys taken for values") {
    KernelCall& call = call_of(b, "F", "scaled_dot_product_attention");
    std::swap(call.inputs[1].offset, call.inputs[2].offset);
    CHECK_THAT(answer(b), Contains("scaled_dot_product_attention of") && Contains("make_models.py:42"));
  }
  SECTION("attention that sees what comes") {
    for (Attr& attr : call_of(b, "F", "scaled_dot_product_attention").attrs)
      if (attr.name == "is_causal") attr.value = false;
    CHECK_THAT(answer(b), Contains("scaled_dot_product_attention of"));
  }
  SECTION("a sample's neighbour") {
    KernelCall& call = call_of(b, "F", "gelu");
    call.inputs[0].strides[0] = 0;
    CHECK_THAT(answer(b), Contains("gelu of") && Contains("an operand that does not name all samples"));
  }
}

TEST_CASE("names change no verdict and no timeline") {
  for (const std::string* strategy : {&kPipelineOfReplicas, &kUnequalGroups, &kMicrobatches}) {
    INFO(*strategy);
    Bundle b = mlp(*strategy);
    const std::string spans = spans_of(b);
    rename(b);
    const auto report = verify::verify(b);
    REQUIRE(report.ok());
    CHECK((report->equality.whole() && report->equality.proved == 7));
    CHECK(spans_of(b) == spans);
    std::swap(call_of(b, "F", "sub").inputs[0], call_of(b, "F", "sub").inputs[1]);
    CHECK_THAT(answer(b), Contains("sub of \"elsewhere\"") && Contains("(sub of \"mse_loss at make_models.py:28\")"));
  }
}

// With experts, casts, a loss scale, masks, running statistics and evaluations as well.
TEST_CASE("plans of every kind are proved alike whatever things are called") {
  const std::pair<const char*, std::string> plans[] = {
      {"tiny_gpt.onnx", two_stages("eval: {data: held_out.bin, every: 5}\n"
                                   "schedule: {family: zero_bubble, microbatches: 2, ranks: [[0], [1]]}\n")},
      {"tiny_gpt.onnx", two_stages("precision: {compute: f16, loss_scale: dynamic}\n"
                                   "directives: [{op: recompute, filter: {PP: 0}}]\n"
                                   "schedule: {family: 1f1b, microbatches: 2, ranks: [[0], [1]]}\n")},
      {"tiny_gpt_dropout.onnx",
       "piper: 1\nmodel: {batch: 8, dims: {S: 6}}\nannotate:\n  - {tag: PP, starts: [h.0, ln_f]}\n"
       "schedule: {family: 1f1b, microbatches: 2, ranks: [[0, 1], [2, 3]]}\n" +
           kOptimizer},
      {"hazards.onnx",
       "piper: 1\nmodel: {batch: 8}\ndirectives: [{op: split, num_microbatches: 2}]\n"
       "per_microbatch: [norm]\n" +
           kOptimizer},
  };
  for (const auto& [model, strategy] : plans) {
    INFO(model << "\n" << strategy);
    Bundle b = compiled::bundle(model, strategy);
    const auto before = verify::verify(b);
    REQUIRE(before.ok());
    rename(b);
    const auto after = verify::verify(b);
    INFO((after.ok() ? std::string() : after.error().message));
    REQUIRE(after.ok());
    CHECK(describe(after->equality) == describe(before->equality));
  }
}

// What fields say is held to what the program does: one that lies is refused, or is not proved.
TEST_CASE("fields of programs and slots that lie do not pass") {
  const Bundle sound = mlp(kPipelineOfReplicas);
  REQUIRE(answer(sound) == "proved 7");
  const auto refused = [&](const std::function<void(Bundle&)>& change) {
    Bundle b = sound;
    b.manifest.proved = 7;
    change(b);
    const auto report = verify::verify(b);
    return report.ok() ? "accepted: " + describe(report->equality) : report.error().message;
  };
  CHECK(refused([](Bundle&) {}) == "accepted: " + describe(verify::verify(sound)->equality));
  CHECK_THAT(refused([](Bundle& b) { program_of(b, "F").of->samples += 1; }), Contains("and its program is for 3"));
  CHECK_THAT(refused([](Bundle& b) { program_of(b, "B").of->samples += 1; }), Contains("and its program is for 3"));
  // A backward that says it is of the other stage adds the same samples there, and has none of its own.
  CHECK_THAT(refused([](Bundle& b) { program_of(b, "B").of->chunk ^= 1; }), Contains("rule "));
  CHECK_THAT(refused([](Bundle& b) { program_of(b, "F").of.reset(); }), Contains("a program of no chunk"));
  const auto slot_of = [](Bundle& b, SlotRole role) -> Slot& {
    for (Slot& slot : program_of(b, "B").slots)
      if (slot.role == role) return slot;
    FAIL("no such slot");
    return b.programs[0].slots[0];
  };
  CHECK_THAT(refused([&](Bundle& b) { slot_of(b, SlotRole::kGradient).of = "layers.1.bias"; }), Contains("rule "));
  CHECK_THAT(refused([&](Bundle& b) { slot_of(b, SlotRole::kGradient).of.clear(); }), Contains("rule "));
  CHECK_THAT(refused([&](Bundle& b) { slot_of(b, SlotRole::kParameter).of = "layers.0.weight"; }), Contains("rule "));
  const auto loss = [](Bundle& b) -> Slot& {
    for (Program& program : b.programs)
      for (Slot& slot : program.slots)
        if (slot.holds == StepNumber::kLoss) return slot;
    FAIL("no loss");
    return b.programs[0].slots[0];
  };
  CHECK_THAT(refused([&](Bundle& b) { loss(b).holds = StepNumber::kNone; }), Contains("rule 8: the loss"));
  CHECK_THAT(refused([&](Bundle& b) { loss(b).holds = StepNumber::kDropped; }), Contains("rule 8: the loss"));
  CHECK_THAT(refused([&](Bundle& b) { loss(b).term = 1; }), Contains("rule 8: the loss"));
  // A name does not make a loss.
  CHECK_THAT(refused([&](Bundle& b) {
               Slot& slot = loss(b);
               slot.holds = StepNumber::kNone;
               slot.name = "loss";
             }),
             Contains("rule 8: the loss"));
}

TEST_CASE("what has no row is said to be open, and refuses nothing") {
  Bundle b = mlp(kMicrobatches);
  b.manifest.proved = 0;
  for (Reference& reference : b.reference)
    for (KernelCall& call : reference.program.calls)
      if (call.kernel == "sub") call.kernel = "batch_norm";
  const std::string text = answer(b);
  CHECK_THAT(text, Contains("proved in part: 0 gradients") && Contains("kernel batch_norm has no row") &&
                       Contains("not proved for 7"));
  b.reference.clear();
  CHECK(answer(b) == "no reference");
}

TEST_CASE("a chain of sums through more programs than the proof follows is open") {
  constexpr int kPrograms = 4100;
  Bundle b = mlp(kOneDevice);
  b.manifest.proved = 0;
  for (int p = 0; p < kPrograms; ++p) {  // each adds what the next has added up
    const std::string chunk = "c" + std::to_string(p);
    Slot to{"sum " + std::to_string(p), SlotRole::kGradient, 40, true, true};
    if (p == 0) to.of = "layers.0.bias";
    b.manifest.chunks.push_back({chunk, chunk, {}});
    const Operand sum{1, 0, DType::kF32, {10}, {1}}, of_next{0, 0, DType::kF32, {10}, {1}};
    b.programs.push_back({chunk,
                          {{"sum " + std::to_string(p + 1), SlotRole::kGradient, 40, true, false}, to},
                          0,
                          {{"add_into", true, {sum}, {of_next}, {}, ""}},
                          ChunkPass{static_cast<int32_t>(b.manifest.chunks.size()) - 1, Pass::kForward, 12}});
    b.ranks[0].instructions.edit().push_back({0, Run{static_cast<int32_t>(b.programs.size()) - 1, 0, {}}, -1});
  }
  CHECK_THAT(answer(b), Contains("a chain of more programs than the proof follows"));
}

TEST_CASE("less than the manifest says was proved refutes") {
  Bundle b = mlp(kMicrobatches);
  b.manifest.proved = 7;
  CHECK(answer(b) == "proved 7");
  b.manifest.proved = 8;
  CHECK(answer(b) ==
        "rule 12: of the 8 gradients and losses that the manifest says are the model's, 7 are proved; "
        "there are no more");
  b.manifest.proved = 1;
  for (Reference& reference : b.reference)
    for (KernelCall& call : reference.program.calls)
      if (call.kernel == "sub") call.kernel = "batch_norm";
  CHECK_THAT(answer(b), Contains("rule 12: of the 1 gradients") && Contains("0 are proved; not \"") &&
                            Contains("kernel batch_norm has no row"));
  b.reference.clear();
  CHECK_THAT(answer(b), Contains("0 are proved; the bundle has no reference"));
}

// The reference and all plans are made after the pass that inserts casts; this is what holds that pass.
TEST_CASE("casts are held to the model without them") {
  const std::string precision = GENERATE(as<std::string>(), "{compute: bf16}", "{compute: f16, loss_scale: 1024}");
  const Bundle sound = compiled::bundle("tiny_gpt.onnx", kOneDevice + "precision: " + precision + "\n");
  REQUIRE(sound.reference.size() == 2);
  const auto whole = verify::check_equality(sound);
  REQUIRE(whole.ok());
  CHECK((whole->whole() && whole->casts.held == kTensorsOfGpt + 1 && whole->casts.open == 0));
  CHECK_THAT(describe(*whole), Contains("29 of the reference as before `precision` inserted casts"));
  const std::string text = print_reference(sound.reference[1]);
  CHECK_THAT(text, !Contains("bf16") && !Contains("f16"));
  CHECK(print_reference(*parse_reference(text, "reference.uncast.json")) == text);

  Bundle b = sound;
  Program& program = b.reference[0].program;
  std::vector<KernelCall*> casts;
  for (KernelCall& call : program.calls)
    if (call.kernel == "cast") casts.push_back(&call);
  const auto refusal = [&] {
    const auto answer = verify::check_casts(b);
    REQUIRE_FALSE(answer.ok());
    CHECK(answer.error().code == "P0641");
    return answer.error().message;
  };
  SECTION("a cast of another value of its shape") {
    KernelCall* other = nullptr;
    for (KernelCall* call : casts)
      if (call != casts[0] && call->inputs[0].shape == casts[0]->inputs[0].shape &&
          call->inputs[0].dtype == casts[0]->inputs[0].dtype && call->inputs[0].slot != casts[0]->inputs[0].slot)
        other = call;
    REQUIRE(other != nullptr);
    other->inputs[0] = casts[0]->inputs[0];
    CHECK_THAT(refusal(), Contains("with the casts that `precision` asks for") && Contains("make_models.py"));
  }
  SECTION("a cast that reads its value transposed") {
    const auto square = std::find_if(casts.begin(), casts.end(), [](const KernelCall* call) {
      return call->inputs[0].shape.size() == 2 && call->inputs[0].shape[0] == call->inputs[0].shape[1];
    });
    if (square == casts.end()) return;
    std::swap((*square)->inputs[0].strides[0], (*square)->inputs[0].strides[1]);
    CHECK_THAT(refusal(), Contains("the difference begins at its call"));
  }
  SECTION("a gradient that comes back twice") {
    const auto add = std::find_if(program.calls.begin(), program.calls.end(),
                                  [](const KernelCall& call) { return call.kernel == "add_into"; });
    REQUIRE(add != program.calls.end());
    b.reference[0].lines.emplace_back();
    program.calls.push_back(KernelCall(*add));
    refusal();
  }
  SECTION("nothing is added to the loss") {
    for (KernelCall& call : program.calls)
      if (call.kernel == "add_into" &&
          program.slots[static_cast<size_t>(call.outputs[0].slot)].holds == StepNumber::kLoss)
        call.kernel = "neg";
    refusal();
  }
}

namespace {
const std::string kNorm = "per_microbatch: [norm]\n" + kOptimizer;
const std::string kNormOnOneDevice =
    "piper: 1\nmodel: {batch: 8}\ndirectives: [{op: split, num_microbatches: 2}]\n" + kNorm;
const std::string kNormOnReplicas =
    "piper: 1\nmodel: {batch: 8}\ndirectives: [{op: replicate, filter: {}, devices: [0, 1], bucket_size: 0.001}]\n" +
    kNorm;
}  // namespace

// Statistics of a piece mix its samples, which are in the number.
TEST_CASE("plans of a model that normalises over a batch compute what it computes of each piece") {
  const Bundle sound = compiled::bundle("hazards.onnx", kNormOnReplicas);
  REQUIRE(sound.reference.size() == 1);
  const std::string text = print_reference(sound.reference[0]);
  CHECK(print_reference(compiled::bundle("hazards.onnx", kNormOnOneDevice).reference.at(0)) == text);
  CHECK(print_reference(*parse_reference(text, "reference.json")) == text);
  const std::string proved = answer(sound);
  CHECK_THAT(proved, Contains("proved "));
  CHECK(answer(compiled::bundle("hazards.onnx", kNormOnOneDevice)) == proved);
  const auto report = verify::check_equality(sound);
  REQUIRE(report.ok());
  CHECK_THAT(describe(*report),
             Contains("for each microbatch of 4 samples separately, because samples are read together by batch_norm"));

  Bundle b = sound;
  SECTION("statistics that are not updated") {
    KernelCall& call = call_of(b, "F", "batch_norm");
    call.inputs[3] = call.inputs[4] = {};
    CHECK_THAT(answer(b), Contains("batch_norm of"));
  }
  SECTION("another momentum") {
    for (Attr& attr : call_of(b, "F", "batch_norm").attrs)
      if (attr.name == "momentum") attr.value = 0.5;
    CHECK_THAT(answer(b), Contains("batch_norm of"));
  }
  SECTION("mean and deviation exchanged in the backward") {
    KernelCall& call = call_of(b, "B", "batch_norm_backward_input");
    std::swap(call.inputs[2], call.inputs[3]);
    CHECK_THAT(answer(b), Contains("batch_norm_backward_input of"));
  }
  SECTION("the normalised value for its derivative") {
    KernelCall& call = call_of(b, "B", "batch_norm_backward_weight");
    std::swap(call.inputs[0], call.inputs[1]);
    CHECK_THAT(answer(b), Contains("batch_norm_backward_weight of"));
  }
  SECTION("a reference for other pieces") {
    const std::string other = "piper: 1\nmodel: {batch: 8}\ndirectives: [{op: split, num_microbatches: 4}]\n" + kNorm;
    b.reference = compiled::bundle("hazards.onnx", other).reference;
    b.manifest.proved = 0;
    CHECK_THAT(answer(b), Contains("microbatches of other sizes than the reference's 2 samples"));
  }
}

TEST_CASE("terms of a loss that stages add up apart are the model's, of a piece as of the step") {
  const std::string of_pieces = "per_microbatch: [\"*\"]\n" + kOptimizer;
  const Bundle sound = compiled::bundle("tiny_balanced.onnx",
                                        "piper: 1\nmodel: {batch: 8}\n"
                                        "annotate:\n  - {tag: PP, starts: [layers.0, layers.1]}\n"
                                        "schedule: {family: 1f1b, microbatches: 2, ranks: [[0], [1]]}\n" +
                                            of_pieces);
  CHECK(answer(sound) == "proved 7");
  CHECK(answer(compiled::bundle("tiny_balanced.onnx",
                                "piper: 1\nmodel: {batch: 8}\ndirectives: [{op: split, num_microbatches: 2}]\n" +
                                    of_pieces)) == "proved 7");
  Bundle b = sound;
  std::vector<KernelCall>& calls = program_of(b, "F").calls;
  const auto add = std::find_if(calls.begin(), calls.end(), [](const auto& call) { return call.kernel == "add_into"; });
  REQUIRE(add != calls.end());
  SECTION("a term that is added twice") {
    calls.insert(add, KernelCall(*add));
    CHECK_THAT(answer(b), Contains("rule 12"));
  }
  SECTION("a term with another weight") {
    auto weighted = std::make_reverse_iterator(add);
    weighted = std::find_if(weighted, calls.rend(), [](const auto& call) { return call.kernel == "mul"; });
    REQUIRE(weighted != calls.rend());
    weighted->inputs[1] = weighted->inputs[0];
    CHECK_THAT(answer(b), Contains("rule 12"));
  }
}

TEST_CASE("a model whose batch is fixed has a reference for pieces of that size") {
  const Bundle b = compiled::bundle("fixed_batch.onnx", "piper: 1\n" + kOptimizer);
  const auto report = verify::check_equality(b);
  REQUIRE(report.ok());
  CHECK((report->whole() && report->piece > 0 && report->mixing.empty()));
  CHECK_THAT(print_reference(b.reference.at(0)), !Contains("n]"));
}
