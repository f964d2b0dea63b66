// Reader and writer of plan bundles: round trips, determinism, and every kind of damage refused with
// its place and reason.
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "schemas/plan/bundle_io.h"
#include "schemas/plan/file_bytes.h"
#include "schemas/plan/provenance_text.h"
#include "schemas/plan/safetensors.h"
#include "tests/unit/plan_bundle_example.h"
#include "tests/unit/temp_folder.h"

namespace fs = std::filesystem;
using namespace piper;
using namespace piper::plan;

namespace {

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string message(const Status& status) {
  return status.ok() ? "ok" : status.error().code + " " + status.error().message;
}

std::vector<WeightTensor> weights(const std::vector<float>& values) {
  WeightTensor tensor{
      "layers.0.weight", DType::kF32, {4, 4}, "", 0, 64, reinterpret_cast<const std::byte*>(values.data()), {}};
  return {tensor};
}

std::vector<float> counted() {
  std::vector<float> values(16);
  for (size_t i = 0; i < 16; ++i) values[i] = static_cast<float>(i);
  return values;
}

// The example written to `directory`.
void write_example(const std::string& directory) {
  auto bundle = example::two_ranks();
  const auto values = counted();
  REQUIRE(message(write_bundle(directory, bundle, weights(values), {}, WeightMode::kCopy)) == "ok");
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string rank_damage(const std::string& from, const std::string& to) {
  const auto bundle = example::two_ranks();
  const auto text = print_rank_plan(bundle.ranks[1], bundle.provenance, bundle.programs);
  return message(parse_rank_plan(replaced(text, from, to), "r", bundle.provenance, bundle.programs).status());
}
std::string manifest_damage(const std::string& from, const std::string& to) {
  auto bundle = example::two_ranks();
  bundle.manifest.files = {{"ranks/rank-00000.json", "00", 3}};
  return message(parse_manifest(replaced(print_manifest(bundle.manifest), from, to), "m").status());
}

}  // namespace

// What was printed and parsed prints again to the same bytes.
TEST_CASE("plan text round trip") {
  auto bundle = example::two_ranks();
  for (const auto& plan : bundle.ranks) {
    const auto text = print_rank_plan(plan, bundle.provenance, bundle.programs);
    const auto parsed = parse_rank_plan(text, "r", bundle.provenance, bundle.programs);
    REQUIRE(message(parsed.status()) == "ok");
    CHECK(print_rank_plan(*parsed, bundle.provenance, bundle.programs) == text);
    CHECK(parsed->instructions.size() == plan.instructions.size());
    CHECK(parsed->scalars.at(0).values == std::vector<int64_t>{4});
  }
  bundle.manifest.files = {{"ranks/rank-00000.json", "00", 3}};
  bundle.manifest.chunks = {{"a/1", "a", {{"L2", 3}, {"a \"tag\"", 0}}}, {"a/2", "a", {}}, {"b", "b", {}}};
  bundle.manifest.model_flops = 2.5e19;
  bundle.manifest.proved = 7;
  const auto text = print_manifest(bundle.manifest);
  const auto parsed = parse_manifest(text, "m");
  REQUIRE(message(parsed.status()) == "ok");
  CHECK(print_manifest(*parsed) == text);
  CHECK(parsed->run.seed == 18446744073709551615u);
  REQUIRE(parsed->chunks.size() == 3);
  CHECK(parsed->chunks[0].region == "a");
  CHECK(parsed->chunks[0].tags[0].tag == "L2");
  CHECK(parsed->chunks[0].tags[0].index == 3);
  CHECK(parsed->chunks[2].region == "b");
  const auto table = print_provenance(bundle.provenance);
  CHECK(print_provenance(*parse_provenance(table, "t")) == table);
  // Whatever a name is made of, that of an attribute too.
  Program named = bundle.programs[2];
  named.calls.at(0).attrs = {{"a \"name\"\n\\", true}, {"", int64_t{2}}};
  const auto program = print_program(named, bundle.manifest.chunks);
  const auto again = parse_program(program, "p", bundle.manifest.chunks);
  REQUIRE(message(again.status()) == "ok");
  CHECK(print_program(*again, bundle.manifest.chunks) == program);
  CHECK(again->calls[0].attrs.at(0).name == "a \"name\"\n\\");
}

// The text is what the format page promises.
TEST_CASE("plan text is readable") {
  const auto bundle = example::two_ranks();
  const auto text = print_rank_plan(bundle.ranks[0], bundle.provenance, bundle.programs);
  const auto holds = [&text](const char* line) { return text.find(std::string("\n") + line) != std::string::npos; };
  CHECK(holds(R"({"run":"c0.F.b4","args":"c0.F m0","workspace":"workspace","stream":"compute","at":"s.yaml:3:5"},)"));
  CHECK(
      holds(R"({"send":"act y m0","count":16,"dtype":"f32","channel":"there","stream":"to peer","at":"s.yaml:9:5"},)"));
  CHECK(holds(R"({"recv":"act peer m0+64","count":16,"dtype":"f32","channel":"back","stream":"from peer",)"
              R"("at":"s.yaml:9:5"},)"));
  CHECK(holds(R"({"channel":"there","peer":1,"id":0},)"));
  CHECK(holds(R"({"scalar":"sample_offset","values":[4]})"));
  CHECK(holds(R"({"wait":"c0.F m0","stream":"to peer"},)"));
  CHECK(holds(R"({"all_reduce":"grad weight","count":16,"dtype":"f32","op":"sum",)"
              R"("communicator":"dp:0,1","stream":"reduce","at":"s.yaml:9:5"},)"));
  CHECK(holds(
      R"({"update":"sgd.clipped.16","args":"update weight from 0","group":0,"stream":"compute","at":"optimizer"})"));
  CHECK(holds(R"({"args":"c0.B m0","microbatch":0,"in":["act peer m0+64","grad weight"]})"));
  CHECK(holds(R"("act peer m0":384,)"));
  const auto program = print_program(bundle.programs[2], bundle.manifest.chunks);
  CHECK(program.find(R"({"call":"matmul","out":["workspace+64 f32[4,4]"],"in":["x f32[4,4]",)"
                     R"("weight f32[4,4]{1,4}"],"from":"layers.0"})") != std::string::npos);
  CHECK(program.find(R"("attrs":{"value":-1e999,"dim":-1,"scale":2.0,"keep":true,"mode":"a \"b\"","axes":[0,1]})") !=
        std::string::npos);
}

// White space is free.
TEST_CASE("plan text with white space") {
  const auto bundle = example::two_ranks();
  auto text = print_rank_plan(bundle.ranks[0], bundle.provenance, bundle.programs);
  std::string spaced;
  bool inside = false;
  for (const char c : text) {
    if (c == '"') inside = !inside;
    spaced += c;
    if (!inside && (c == ',' || c == '{' || c == ':' || c == '[' || c == ']')) spaced += " \n\t";
  }
  const auto parsed = parse_rank_plan(spaced, "r", bundle.provenance, bundle.programs);
  REQUIRE(message(parsed.status()) == "ok");
  CHECK(print_rank_plan(*parsed, bundle.provenance, bundle.programs) == text);
}

// The same bundle gives the same bytes; what is read and written again too.
TEST_CASE("bundles are deterministic") {
  TempFolder dir;
  write_example(dir / "a");
  write_example(dir / "b/");
  auto bundle = read_bundle(dir / "a");
  REQUIRE(message(bundle.status()) == "ok");
  const auto values = counted();
  REQUIRE(message(write_bundle(dir / "c", *bundle, weights(values), {}, WeightMode::kCopy)) == "ok");
  for (const auto* file : {"manifest.json", "provenance.json", "programs/c0.F.b4.json", "programs/c0.B.b4.json",
                           "ranks/rank-00000.json", "ranks/rank-00001.json", "weights/model.safetensors"}) {
    INFO(file);
    const auto text = slurp(dir / "a/" + file);
    CHECK(!text.empty());
    CHECK(slurp(dir / "b/" + file) == text);
    CHECK(slurp(dir / "c/" + file) == text);
  }
  CHECK(open_bundle(dir / "a")->digest == open_bundle(dir / "c")->digest);
  CHECK(bundle->ranks.size() == 2);
  const auto one = read_bundle(dir / "a", {1});
  REQUIRE(one.ok());
  REQUIRE(one->ranks.size() == 1);
  CHECK(one->ranks[0].rank == 1);
}

// An existing bundle is replaced as a whole; anything else stays as it is.
TEST_CASE("output directory") {
  TempFolder dir;
  write_example(dir / "plans");
  std::ofstream(dir / "plans/ranks/rank-00009.json") << "stale";
  write_example(dir / "plans");
  CHECK(!fs::exists(dir / "plans/ranks/rank-00009.json"));
  size_t entries = 0;
  for (const auto& entry : fs::directory_iterator(dir.path())) entries += entry.exists() ? 1 : 0;
  CHECK(entries == 1);

  std::ofstream(dir / "plans/thesis.tex") << "mine";
  auto bundle = example::two_ranks();
  const auto refused = [&](const std::string& name) {
    return message(write_bundle(dir / name, bundle, {}, {}, WeightMode::kNone));
  };
  const std::string hint = "; name a new directory, an empty one or an existing plan bundle";
  CHECK(refused("plans") == "P0601 " + dir / "plans" +
                                " is not replaced: it holds \"thesis.tex\", which does not belong to a plan bundle" +
                                hint);
  CHECK(slurp(dir / "plans/thesis.tex") == "mine");
  fs::create_directories(dir / "other/ranks");
  CHECK(refused("other") == "P0601 " + dir / "other" + " is not replaced: it has no manifest of a plan bundle" + hint);
  std::ofstream(dir / "file") << "x";
  CHECK(refused("file") == "P0601 " + dir / "file" + " is not replaced: it is not a directory" + hint);
  fs::create_directories(dir / "empty");
  CHECK(refused("empty") == "ok");
  CHECK(refused("deep/er/plans") == "ok");
}

// A changed, short or missing file is named.
TEST_CASE("damaged files of a bundle") {
  TempFolder dir;
  std::string file;
  const auto read = [&] {  // weights are read by who needs them
    const auto opened = open_bundle(dir / "p");
    if (!opened.ok()) return message(opened.status());
    return message(file.starts_with("weights/") ? check_weights(*opened) : read_bundle(*opened).status());
  };
  for (const char* name :
       {"ranks/rank-00001.json", "programs/c0.F.b4.json", "provenance.json", "weights/model.safetensors"}) {
    file = name;
    write_example(dir / "p");
    const auto text = slurp(dir / "p/" + file);
    auto changed = text;
    changed[changed.size() / 2] ^= 1;
    std::ofstream(dir / "p/" + file, std::ios::binary) << changed;
    CHECK(read() ==
          "P0604 " + dir / "p/" + file + ": damaged or changed by hand: its SHA-256 differs from the manifest");
    std::ofstream(dir / "p/" + file, std::ios::binary) << text.substr(0, text.size() - 1);
    CHECK(read() == "P0604 " + dir / "p/" + file + ": damaged or changed by hand: " + std::to_string(text.size() - 1) +
                        " bytes, the manifest says " + std::to_string(text.size()));
    fs::remove(dir / "p/" + file);
    CHECK(read() == "P0603 cannot read " + dir / "p/" + file + ": No such file or directory");
  }
  fs::remove(dir / "p/manifest.json");
  CHECK(read() == "P0603 " + dir / "p" + " is not a plan bundle: cannot read " +
                      dir / "p/manifest.json: No such file or directory");
  write_example(dir / "q");
  CHECK(message(read_bundle(dir / "q", {2}).status()) == "P0611 the plan is for 2 ranks; there is no rank 2");
}

// What a test of one instruction or placement adds to the example's rank 1.
std::string added(const Action& action, const Placement& placement = {}) {
  auto bundle = example::two_ranks();
  auto& plan = bundle.ranks[1];
  if (!placement.name.empty()) plan.placements.push_back(placement);
  else example::append(plan, 0, action);
  const auto text = print_rank_plan(plan, bundle.provenance, bundle.programs);
  const auto parsed = parse_rank_plan(text, "r", bundle.provenance, bundle.programs);
  if (!parsed.ok()) return message(parsed.status());
  CHECK(print_rank_plan(*parsed, bundle.provenance, bundle.programs) == text);
  const auto section = text.find(placement.name.empty() ? "\"instructions\"" : "\"placements\"");
  const auto end = text.find("\n]", section), begin = text.rfind('\n', end - 1) + 1;
  return text.substr(begin, end - begin);
}

// Rank 1 is position 1 of 2. Buffer 0 has 64 bytes, 3 has 256, 4 and 5 have 128 each.
TEST_CASE("collectives are printed and parsed") {
  CHECK(added(ReduceScatter{{4, 0}, {5, 64}, 16, DType::kF32, 0, Reduction::kSum}) ==
        R"({"reduce_scatter":"act y m0","out":"act peer m0+64","count":16,"dtype":"f32","op":"sum",)"
        R"("communicator":"dp:0,1","stream":"compute"})");
  CHECK(added(ReduceScatter{{4, 0}, {}, 16, DType::kF32, 0, Reduction::kSum}).substr(0, 40) ==
        R"({"reduce_scatter":"act y m0","count":16,)");
  CHECK(added(AllGather{{}, {4, 0}, 16, 0}) ==
        R"({"all_gather":"act y m0","count":16,"dtype":"f32","communicator":"dp:0,1","stream":"compute"})");
  CHECK(added(AllGather{{0, 0}, {4, 0}, 16, 0}) ==
        R"({"all_gather":"x","data":"act y m0","count":16,"dtype":"f32","communicator":"dp:0,1","stream":"compute"})");
  CHECK(added(AllToAll{{4, 0}, {5, 0}, 16, {}, {}, 0, 0}) ==
        R"({"all_to_all":"act y m0","recv":"act peer m0","count":16,)"
        R"("dtype":"f32","communicator":"dp:0,1","stream":"compute"})");
  CHECK(added(AllToAll{{4, 0}, {5, 0}, 16, {8, 0}, {3, 16}, 4, 0}) ==
        R"({"all_to_all":"act y m0","recv":"act peer m0","count":16,"dtype":"f32","send_counts":"seed_step",)"
        R"("recv_counts":"workspace+16","row":4,"communicator":"dp:0,1","stream":"compute"})");
}

TEST_CASE("a sum says the types of messages and of the sum where they are others than its buffers'") {
  AllReduce reduce{{4, 0}, 16, DType::kBF16, 0, Reduction::kSum};
  reduce.types.message = reduce.types.sum = DType::kF32;
  CHECK(added(reduce) == R"({"all_reduce":"act y m0","count":16,"dtype":"bf16","message":"f32","sum":"f32","op":"sum",)"
                         R"("communicator":"dp:0,1","stream":"compute"})");
}

TEST_CASE("collectives whose ranges do not fit are refused") {
  CHECK(added(ReduceScatter{{4, 0}, {5, 0}, 17, DType::kF32, 0, Reduction::kSum}) ==
        "P0607 r:74: 2 parts of 68 bytes at 0 go beyond the 128 bytes of buffer \"act y m0\"");
  CHECK(added(ReduceScatter{{4, 0}, {4, 64}, 16, DType::kF32, 0, Reduction::kSum}) ==
        "P0607 r:74: a part inside all parts is not named: in place it is the rank's own");
  CHECK(added(AllGather{{3, 64}, {3, 0}, 16, 0}) ==
        "P0607 r:74: a part inside all parts is not named: in place it is the rank's own");
  CHECK(added(ReduceScatter{{4, 0}, {}, 17, DType::kF32, 0, Reduction::kSum}) ==
        "P0607 r:74: 2 parts of 68 bytes at 0 go beyond the 128 bytes of buffer \"act y m0\"");
  CHECK(added(AllGather{{3, 128}, {3, 0}, 16, 0}).substr(0, 28) == R"({"all_gather":"workspace+128)");
  CHECK(added(AllGather{{0, 0}, {3, 0}, int64_t{1} << 62, 0}).substr(0, 11) == "P0607 r:74:");
  CHECK(added(AllToAll{{3, 0}, {3, 64}, 16, {}, {}, 0, 0}) ==
        "P0607 r:74: what it sends and where it receives overlap");
  CHECK(added(AllToAll{{4, 0}, {5, 0}, 16, {3, 0}, {3, 16}, 6, 0}) ==
        "P0607 r:74: rows of 6 elements do not fill parts of 16");
  CHECK(added(AllToAll{{4, 0}, {5, 0}, 16, {3, 0}, {3, 248}, 4, 0}) ==
        "P0607 r:74: 2 parts of 8 bytes at 248 go beyond the 256 bytes of buffer \"workspace\"");
  CHECK(added(AllToAll{{4, 0}, {5, 0}, 16, {3, 4}, {3, 16}, 4, 0}) ==
        "P0607 r:74: its counts: elements of 8 bytes cannot be at 4 of buffer \"workspace\"");
  CHECK(added(AllToAll{{4, 0}, {3, 0}, 16, {8, 0}, {3, 16}, 4, 0}) ==
        "P0607 r:74: where it receives overlaps its counts");
}

TEST_CASE("a persistent buffer says whether steps read it or the plan was made of it") {
  Manifest manifest = example::two_ranks().manifest;
  for (const ModelBuffer buffer : {ModelBuffer::kRead, ModelBuffer::kFixed}) {
    manifest.tensors[0].trained = false;
    manifest.tensors[0].buffer = buffer;
    const std::string text = print_manifest(manifest);
    const std::string word = "\"buffer\":\"" + std::string(model_buffer_name(buffer)) + "\"";
    REQUIRE(text.find(word) != std::string::npos);
    const auto read = parse_manifest(text, "m");
    REQUIRE(read.ok());
    CHECK(read->tensors[0].buffer == buffer);
    for (const char* wrong : {"\"buffer\":\"none\"", "\"buffer\":\"held\""}) {
      std::string changed = text;
      CHECK_FALSE(parse_manifest(changed.replace(changed.find(word), word.size(), wrong), "m").ok());
    }
    manifest.tensors[0].trained = true;
    CHECK_FALSE(parse_manifest(print_manifest(manifest), "m").ok());
  }
}

// A tensor may lie in parts; a part that is the whole tensor needs no numbers.
TEST_CASE("parts of tensors are printed and parsed") {
  const auto value = PlacementKind::kValue;
  CHECK(added({}, {"w", value, DType::kF32, {4, 4}, {{1, 0}, 0, 16, true}}) ==
        R"({"tensor":"w","kind":"value","dtype":"f32","shape":[4,4],"in":"weight","owner":true})");
  CHECK(added({}, {"w", value, DType::kF32, {4, 8}, {{1, 16}, 8, 12, false}}) ==
        R"({"tensor":"w","kind":"value","dtype":"f32","shape":[4,8],"in":"weight+16","first":8,"count":12})");
  CHECK(added({}, {"w", PlacementKind::kSecondMoment, DType::kF32, {4, 8}, {{2, 0}, 0, 0, false}}) ==
        R"({"tensor":"w","kind":"v","dtype":"f32","shape":[4,8],"in":"grad weight","first":0,"count":0})");
  CHECK(added({}, {"w", value, DType::kF32, {4, 8}, {{1, 0}, 20, 13, false}}) ==
        "P0607 r:43: 13 elements at 20 go beyond the 32 elements of the tensor");
  CHECK(added({}, {"w", value, DType::kF32, {4, 8}, {{1, 0}, 0, 32, false}}) ==
        "P0607 r:43: 128 bytes at 0 go beyond the 64 bytes of buffer \"weight\"");
  CHECK(added({}, {"w", value, DType::kF32, {4, 8}, {{1, 0}, -1, 2, false}}).substr(0, 11) == "P0607 r:43:");
}

// No kernel and no sum gets elements at a place that is no multiple of their size.
TEST_CASE("ranges that are not aligned are refused") {
  const auto at = [](const std::string& line, int size, int offset, const std::string& buffer) {
    return "P0607 r:" + line + "elements of " + std::to_string(size) + " bytes cannot be at " + std::to_string(offset) +
           " of buffer \"" + buffer + "\"";
  };
  CHECK(rank_damage("\"in\":[\"x\",\"weight\",\"act y m0\"]", "\"in\":[\"x\",\"weight\",\"act y m0+6\"]") ==
        at("57: slot \"y\" of program \"c0.F.b4\": ", 4, 6, "act y m0"));
  CHECK(rank_damage("\"optimizer_step\",\"loss+1+4\"]", "\"optimizer_step\",\"loss+1+5\"]") ==
        at("73: slot \"grad_scale\" of program \"sgd.clipped.16\": ", 4, 5, "loss+1"));
  CHECK(rank_damage("\"loss\":\"loss+1+0\"", "\"loss\":\"loss+1+3\"") == at("6: ", 4, 3, "loss+1"));
  CHECK(added(AllReduce{{4, 2}, 4, DType::kF32, 0, Reduction::kSum}) == at("74: ", 4, 2, "act y m0"));
  CHECK(added(ReduceScatter{{4, 0}, {5, 62}, 4, DType::kF32, 0, Reduction::kSum}) == at("74: ", 4, 62, "act peer m0"));
  CHECK(added(ReduceScatter{{4, 4}, {5, 0}, 4, DType::kF64, 0, Reduction::kSum}) == at("74: ", 8, 4, "act y m0"));
  CHECK(added({}, {"w", PlacementKind::kValue, DType::kF32, {4, 4}, {{4, 1}, 0, 8, true}}) ==
        at("43: ", 4, 1, "act y m0"));

  // A workspace as wide as its widest element, and the input's place, which the manifest gives the type of.
  auto bundle = example::two_ranks();
  bundle.programs[2].workspace_bytes = 192;
  bundle.ranks[1].instructions.edit()[0].action = Run{2, 0, {3, 2}};
  const auto text = print_rank_plan(bundle.ranks[1], bundle.provenance, bundle.programs);
  CHECK(message(parse_rank_plan(text, "r", bundle.provenance, bundle.programs).status()) ==
        at("57: ", 4, 2, "workspace"));
  TempFolder dir;
  bundle = example::two_ranks();
  bundle.ranks[1].buffers.edit()[0].bytes = 128;
  bundle.ranks[1].buffers.edit()[1].offset = 128;
  bundle.ranks[1].inputs[0].where.offset = 2;
  REQUIRE(write_bundle(dir / "p", bundle, {}, {}, WeightMode::kNone).ok());
  CHECK(message(read_bundle(dir / "p").status()) ==
        "P0607 " + dir / "p/ranks/rank-00001.json" +
            ": input \"input\": elements of 4 bytes cannot be at 2 of buffer \"x\"");
}

// Each kind of damage inside a rank plan, with line and name.
TEST_CASE("damaged rank plans") {
  CHECK(rank_damage("\"act y m0\"", "\"act z m0\"") == "P0606 r:51: there is no buffer \"act y m0\"");
  CHECK(rank_damage("{\"buffer\":\"weight\"", "{\"buffer\":\"x\"") == "P0606 r:29: two buffers are called \"x\"");
  CHECK(rank_damage("\"events\":[\n\"c0.F m0\"", "\"events\":[\n\"c0.B m0\"") ==
        "P0606 r:23: two events are called \"c0.B m0\"");
  CHECK(rank_damage("\"run\":\"c0.F.b4\"", "\"run\":\"c9\"") == "P0606 r:57: there is no program \"c9\"");
  CHECK(rank_damage("\"args\":\"c0.F m0\",\"work", "\"args\":\"c1\",\"work") ==
        "P0606 r:57: there is no argument list \"c1\"");
  CHECK(rank_damage("m0\",\"stream\":\"to peer\"", "m0\",\"stream\":\"t\"") == "P0606 r:59: there is no stream \"t\"");
  CHECK(rank_damage("\"at\":\"s.yaml:3:5\"", "\"at\":\"?\"") == "P0606 r:57: there is no provenance entry \"?\"");
  CHECK(rank_damage("\"in\":[\"x\",\"weight\"", "\"in\":[\"x\"") ==
        "P0609 r:57: argument list \"c0.F m0\" has 2 entries, program \"c0.F.b4\" has 3 slots");
  CHECK(rank_damage("\"in\":[\"x\"", "\"in\":[\"x+4\"") ==
        "P0607 r:57: slot \"x\" of program \"c0.F.b4\" needs 64 bytes, buffer \"x\" has 60");
  CHECK(rank_damage("\"workspace\":\"workspace\"", "\"workspace\":\"act y m0\"") ==
        "P0607 r:57: 256 bytes at 0 go beyond the 128 bytes of buffer \"act y m0\"");
  CHECK(rank_damage(",\"workspace\":\"workspace\"", "") == "P0607 r:57: program \"c0.F.b4\" needs a workspace");
  CHECK(rank_damage("\"act y m0\",\"count\":16", "\"act y m0+96\",\"count\":16") ==
        "P0607 r:61: 64 bytes at 96 go beyond the 128 bytes of buffer \"act y m0\"");
  CHECK(rank_damage("\"act y m0\",\"count\":16", "\"act y m0\",\"count\":-1") == "P0607 r:61: count is negative");
  CHECK(rank_damage("\"peer\":0", "\"peer\":1") == "P0607 r:17: rank 1 cannot be the other end of channel \"there\"");
  CHECK(rank_damage("\"count\":16,\"dtype\":\"f32\",\"op\"", "\"count\":99,\"dtype\":\"f32\",\"op\"") ==
        "P0607 r:68: 396 bytes at 0 go beyond the 64 bytes of buffer \"grad weight\"");
  CHECK(rank_damage("\"op\":\"sum\"", "\"op\":\"max\"") ==
        "P0605 r:68: unknown reduction \"max\"; sum is the one there is");
  CHECK(rank_damage("\"ranks\":[0,1]", "\"ranks\":[0,0]") == "P0606 r:14: communicator \"dp:0,1\" has a rank twice");
  CHECK(rank_damage("\"ranks\":[0,1]", "\"ranks\":[0,2]") ==
        "P0607 r:14: communicator \"dp:0,1\" does not hold rank 1");
  CHECK(rank_damage("\"act peer m0\":384", "\"act peer m0\":385") ==
        "P0607 r:81: the offset of buffer \"act peer m0\" is not a multiple of 64 from 0 up");
  CHECK(rank_damage("\"act peer m0\":384", "\"act peer m0\":576") ==
        "P0607 r:81: buffer \"act peer m0\" goes beyond the arena's 640 bytes");
  CHECK(rank_damage("\"act peer m0\":384,\n", "") == "P0606 r:86: no offset for buffer \"act peer m0\"");
  CHECK(rank_damage("\"buffer\":\"seed_step\",\"class\":\"scalar\",\"bytes\":16",
                    "\"buffer\":\"seed_step\",\"class\":\"scalar\",\"bytes\":9223372036854775807") ==
        "P0607 r:36: the buffers up to \"seed_step\" are larger than any memory");
  CHECK(rank_damage("\"seed_step\":64", "\"seed_step\":0") ==
        "P0607 r:36: the persistent buffers \"sample_offset\" and \"seed_step\" overlap");
  CHECK(rank_damage("\"class\":\"input\"", "\"class\":\"heap\"") == "P0605 r:28: unknown buffer class \"heap\"");
  CHECK(rank_damage("\"values\":[4]", "\"values\":[4,5]") ==
        "P0607 r:48: buffer \"sample_offset\" cannot hold these values: one to as many i64 scalars as it is large");
  CHECK(rank_damage("\"values\":[4]", "\"values\":[]") ==
        "P0607 r:48: buffer \"sample_offset\" cannot hold these values: one to as many i64 scalars as it is large");
  CHECK(rank_damage("\"values\":[4]", "\"values\":[4],\"holds\":\"loss\"") ==
        "P0607 r:48: a plan does not set \"loss\"");
  CHECK(rank_damage("\"scalar\":\"sample_offset\"", "\"scalar\":\"x\"") ==
        "P0607 r:48: buffer \"x\" cannot hold these values: one to as many i64 scalars as it is large");
  CHECK(rank_damage("\"microbatch\":0", "\"microbatch\":-1") == "P0607 r:51: a microbatch is numbered from 0");
  CHECK(rank_damage("{\"wait\":", "{\"hope\":") == "P0605 r:59: unknown instruction \"hope\"");
  // What is left out where it is the default is not to be said either.
  CHECK(rank_damage("{\"stream\":\"from peer\"}", "{\"stream\":\"from peer\",\"priority\":\"normal\"}")
            .ends_with("unknown priority \"normal\""));
  CHECK(rank_damage("\"class\":\"input\",", "\"class\":\"input\",\"colour\":1,") ==
        "P0605 r:28: expected the key \"bytes\", found \"colour\"");
  CHECK(rank_damage("\"stream\":\"to peer\"}", "\"stream\":\"to peer\",\"late\":1}") ==
        "P0605 r:59: unknown or misplaced key '\"late\":1},'");
  CHECK(rank_damage("\"arena_bytes\":640", "\"arena_bytes\":640 640") == "P0605 r:3: expected ',', found '640,'");
  CHECK(rank_damage("\"arena_bytes\":640", "\"arena_bytes\":99999999999999999999") ==
        "P0605 r:3: expected an integer, found '99999999999999999999,'");
}

TEST_CASE("more streams and events than can be put in order are refused") {
  auto bundle = example::two_ranks();
  RankPlan& plan = bundle.ranks[1];
  const auto answer = [&] {
    const auto text = print_rank_plan(plan, bundle.provenance, bundle.programs);
    return message(parse_rank_plan(text, "r", bundle.provenance, bundle.programs).status());
  };
  auto& streams = plan.streams.edit();
  while (streams.size() < 4096) streams.push_back({"stream " + std::to_string(streams.size())});
  CHECK(answer() == "ok");
  auto& events = plan.events.edit();
  while (events.size() < 16384) events.push_back("event " + std::to_string(events.size()));
  CHECK(answer() == "ok");
  events.push_back("one more");
  CHECK(answer().find("a rank of 4096 streams has at most 16384 events") != std::string::npos);
  streams.push_back({"one more"});
  CHECK(answer().find("a rank has at most 4096 streams") != std::string::npos);
}

TEST_CASE("damaged manifests") {
  CHECK(manifest_damage("\"version\":15", "\"version\":14") ==
        "P0608 m:2: plan format version 14 cannot be read; this program reads version 15: compile the plan again");
  CHECK(manifest_damage("piper plan", "pipe plan") == "P0605 m:2: this is not the manifest of a plan bundle");
  CHECK(manifest_damage("\"reporting_rank\":1", "\"reporting_rank\":2") == "P0607 m:9: reporting_rank is out of range");
  CHECK(manifest_damage("\"world_size\":2", "\"world_size\":3") ==
        "P0607 m:30: the manifest describes 2 ranks, world_size is 3");
  CHECK(manifest_damage("ranks/rank-00000.json", "../secret") ==
        "P0606 m:32: a bundle cannot hold the file \"../secret\"");
  CHECK(manifest_damage("\"feed\":\"\"", "\"feed\":\"word\"").ends_with("unknown feed \"word\""));
  CHECK(
      manifest_damage("\"weight\":3.0", "\"weight\":0.0").ends_with("the weight of a data path is a positive number"));
  CHECK(manifest_damage(",\"weight\":0.5", "").ends_with("or up to 2^20 of which each has a weight"));
  CHECK(manifest_damage("\"document_end\":50256", "\"document_end\":-1").ends_with("document_end is no token"));
  CHECK(manifest_damage("\"batch\":8,", "\"batch\":8,\n\"model_flops\":0.0,").ends_with("model_flops is out of range"));
  CHECK(manifest_damage("\"batch\":8,", "\"batch\":8,\n\"proved\":0,").ends_with("proved is out of range"));
  CHECK(manifest_damage("\"model\":", "\"ranks_per_node\":0,\n\"model\":").ends_with("ranks_per_node is out of range"));
  CHECK(manifest_damage("\"kind\":\"sgd\"", "\"kind\":\"lamb\"") == "P0605 m:20: unknown optimizer \"lamb\"");
  CHECK(manifest_damage("\"trained\":true", "\"trained\":true,\"group\":0").ends_with("group is out of range"));
  CHECK(manifest_damage("\"trained\":true", "\"trained\":true,\"buffer\":\"read\"").find("is trained") !=
        std::string::npos);
  CHECK(manifest_damage("\"batch\":8", "\"batch\":-8") == "P0607 m:10: batch is negative");
  CHECK(manifest_damage("\"world_size\":2", "\"world_size\":16777217") == "P0607 m:8: world_size is out of range");
  const std::string chunk = "{\"chunk\":\"c0\",\"tags\":{}}";
  CHECK(manifest_damage(chunk, chunk + "," + chunk) == "P0606 m:18: two chunks are called \"c0\"");
  CHECK(manifest_damage("\"tags\":{}", "\"tags\":{\"PP\":0,\"PP\":1}") == "P0606 m:18: the tag \"PP\" appears twice");
  CHECK(manifest_damage("\"tags\":{}", "\"tags\":{\"PP\":-1}") == "P0607 m:18: the index of tag \"PP\" is negative");
}

// No prefix and no changed byte crashes a parser.
TEST_CASE("any bytes are survived") {
  const auto bundle = example::two_ranks();
  const auto rank = print_rank_plan(bundle.ranks[0], bundle.provenance, bundle.programs);
  const auto program = print_program(bundle.programs[2], bundle.manifest.chunks);
  const auto manifest = print_manifest(bundle.manifest);
  for (size_t i = 0; i < rank.size(); ++i) {
    const bool whole = parse_rank_plan(rank.substr(0, i), "r", bundle.provenance, bundle.programs).ok();
    REQUIRE(whole == (i + 1 == rank.size()));  // the last byte is a line end
    for (const char c : {'\0', '"', '9', '-', '{', '\xff'}) {
      auto changed = rank;
      changed[i] = c;
      (void)parse_rank_plan(changed, "r", bundle.provenance, bundle.programs).ok();
    }
  }
  for (size_t i = 0; i < program.size(); ++i)
    for (const char c : {'\0', '"', '9', '-', '[', '\\'}) {
      auto changed = program;
      changed[i] = c;
      (void)parse_program(changed, "p", bundle.manifest.chunks).ok();
    }
  for (size_t i = 0; i < manifest.size(); ++i) {
    auto changed = manifest;
    changed[i] = '"';
    (void)parse_manifest(changed, "m").ok();
  }
}

// What cannot be written is named, and nothing of it stays.
TEST_CASE("a bundle under a file") {
  const TempFolder dir;
  const std::string file = dir.write("file", "");
  auto bundle = example::two_ranks();
  const std::string refused = message(write_bundle(file + "/plans", bundle, {}, {}, WeightMode::kNone));
  CHECK(refused.substr(0, 5) == "P0602");
  CHECK(refused.find(file) != std::string::npos);
  CHECK(fs::is_regular_file(file));
}

// Weights: permutations of the importer are undone, files linked where they are the same.
TEST_CASE("weights") {
  TempFolder dir;
  auto bundle = example::two_ranks();
  const auto values = counted();
  auto tensors = weights(values);
  tensors[0].permutation = {1, 0};
  REQUIRE(message(write_bundle(dir / "a", bundle, tensors, tensors, WeightMode::kCopy)) == "ok");
  const auto file = SafetensorsFile::open(dir / "a/weights/model.safetensors");
  REQUIRE(message(file.status()) == "ok");
  const auto* tensor = file->find("layers.0.weight");
  REQUIRE(tensor != nullptr);
  float second = 0;
  std::memcpy(&second, tensor->data + 4, 4);
  CHECK(second == 4.0f);
  CHECK(fs::exists(dir / "a/weights/constants.safetensors"));

  tensors = weights(values);
  tensors[0].file = dir / "a/weights/model.safetensors";
  tensors[0].offset = static_cast<int64_t>(fs::file_size(tensors[0].file)) - 64;
  REQUIRE(message(write_bundle(dir / "b", bundle, tensors, {}, WeightMode::kLink)) == "ok");
  CHECK(fs::hard_link_count(dir / "b/weights/model.safetensors") == 2);
  tensors[0].offset += 1;
  CHECK(message(write_bundle(dir / "c", bundle, tensors, {}, WeightMode::kCopy)).substr(0, 5) == "P0610");
  CHECK(!fs::exists(dir / "c"));
  REQUIRE(message(write_bundle(dir / "d", bundle, {}, {}, WeightMode::kNone)) == "ok");
  CHECK(!fs::exists(dir / "d/weights"));
  CHECK(read_bundle(dir / "d").ok());
}

TEST_CASE("damaged safetensors") {
  TempFolder dir;
  const auto open = [&](const std::string& header, size_t data) {
    std::string text(8, '\0');
    for (size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> (8 * i));
    std::ofstream(dir / "x", std::ios::binary) << text << header << std::string(data, 'd');
    auto shown = message(SafetensorsFile::open(dir / "x").status());
    const std::string common = "P0620 " + dir / "x" + ": not a safetensors file, or damaged: ";
    return shown.substr(0, common.size()) == common ? shown.substr(common.size()) : shown;
  };
  CHECK(open(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8) == "ok");
  CHECK(open(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7) ==
        "tensor \"a\": data_offsets lie outside the file");
  CHECK(open(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8) ==
        "tensor \"a\": data_offsets hold 8 bytes, the shape needs 12");
  CHECK(open(R"({"a":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}})", 8) ==
        "tensor \"a\": dtype F8_E4M3 is not supported (F32, F64, BF16, F16, I64, I32, BOOL are)");
  CHECK(open(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}})", 8) ==
        "tensor \"a\": shape must hold numbers from 0 up");
  CHECK(open(R"({"a":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,8]}})", 8) ==
        "tensor \"a\": shape is too large");
  CHECK(open(R"({"a":3})", 8) == "tensor \"a\": needs dtype, shape and data_offsets");
  CHECK(open("[1", 8) == "the header is not a JSON object");
  std::ofstream(dir / "x", std::ios::binary) << std::string(9, '\x7f');
  CHECK(message(SafetensorsFile::open(dir / "x").status()).find("goes beyond the file") != std::string::npos);
  std::ofstream(dir / "x", std::ios::binary) << "abc";
  CHECK(message(SafetensorsFile::open(dir / "x").status()).find("shorter than its 8-byte header length") !=
        std::string::npos);
}
