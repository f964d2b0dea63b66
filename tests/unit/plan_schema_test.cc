// plan.schema.json describes what the writer writes: checked with a small validator of the part of
// JSON Schema that the file uses.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <utility>

#include "schemas/plan/bundle_io.h"
#include "schemas/plan/describe_format.h"
#include "schemas/plan/lr_curves.h"
#include "schemas/plan/names.h"
#include "schemas/plan/provenance_text.h"
#include "tests/source_path.h"
#include "tests/unit/plan_bundle_example.h"

using namespace piper;
using Json = nlohmann::json;

namespace {

class Validator {
 public:
  explicit Validator(Json root) : root_(std::move(root)) {}

  bool valid(const Json& value, const Json& schema) const {
    for (const auto& [key, rule] : schema.items())
      if (!holds(key, rule, value, schema)) return false;
    return true;
  }
  bool valid_as(const Json& value, const std::string& definition) const {
    return valid(value, root_["$defs"][definition]);
  }
  bool valid(const Json& value) const { return valid(value, root_); }

 private:
  static bool is_type(const std::string& type, const Json& value) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "null") return value.is_null();
    if (type == "integer") return value.is_number_integer();
    REQUIRE(type == "number");
    return value.is_number();
  }
  bool holds(const std::string& key, const Json& rule, const Json& value, const Json& schema) const {
    if (key == "$schema" || key == "title" || key == "description" || key == "$defs") return true;
    if (key == "$ref") return valid(value, root_.at(Json::json_pointer(rule.get<std::string>().substr(1))));
    if (key == "const") return value == rule;
    if (key == "enum") return std::find(rule.begin(), rule.end(), value) != rule.end();
    if (key == "minimum") return !value.is_number() || value >= rule;
    if (key == "exclusiveMinimum") return !value.is_number() || value > rule;
    if (key == "maximum") return !value.is_number() || value <= rule;
    if (key == "multipleOf") return value.get<int64_t>() % rule.get<int64_t>() == 0;
    if (key == "minItems") return !value.is_array() || value.size() >= rule.get<size_t>();
    if (key == "minLength") return !value.is_string() || value.get<std::string>().size() >= rule.get<size_t>();
    if (key == "pattern")
      return !value.is_string() || std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>()));
    if (key == "type") {
      if (rule.is_string()) return is_type(rule, value);
      return std::any_of(rule.begin(), rule.end(), [&](const Json& type) { return is_type(type, value); });
    }
    if (key == "oneOf")
      return std::count_if(rule.begin(), rule.end(), [&](const Json& one) { return valid(value, one); }) == 1;
    if (key == "items")
      return !value.is_array() ||
             std::all_of(value.begin(), value.end(), [&](const Json& item) { return valid(item, rule); });
    if (key == "required")
      return std::all_of(rule.begin(), rule.end(),
                         [&](const Json& name) { return value.contains(name.get<std::string>()); });
    if (key == "properties") {
      for (const auto& [name, property] : rule.items())
        if (value.contains(name) && !valid(value[name], property)) return false;
      return true;
    }
    REQUIRE(key == "additionalProperties");
    for (const auto& [name, member] : value.items()) {
      if (schema.contains("properties") && schema["properties"].contains(name)) continue;
      if (rule.is_boolean() ? !rule.get<bool>() : !valid(member, rule)) return false;
    }
    return true;
  }

  Json root_;
};

Validator load() {
  std::ifstream file(test::source_path("schemas/plan.schema.json"));
  REQUIRE(file.good());
  return Validator(Json::parse(file));
}

}  // namespace

TEST_CASE("schema and page are those of the lists of members") {
  const std::pair<std::string, std::string> files[] = {
      {test::source_path("schemas/plan.schema.json"), plan::format_schema()},
      {test::source_path("docs/plan-fields.md"), plan::format_page()}};
  for (const auto& [path, text] : files) {
    INFO(path);
    if (std::getenv("PIPER_UPDATE_GENERATED") != nullptr) std::ofstream(path, std::ios::binary) << text;
    std::ifstream file(path, std::ios::binary);
    CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == text);
  }
}

TEST_CASE("the writer's texts follow the schema") {
  const auto schema = load();
  auto bundle = plan::example::two_ranks();
  bundle.manifest.files = {{"ranks/rank-00000.json", std::string(64, '0'), 3},
                           {"weights/model.safetensors", std::string(64, '0'), 1048577, {0xe3069283, 1}}};
  const auto manifest = Json::parse(plan::print_manifest(bundle.manifest));
  CHECK(schema.valid_as(manifest, "manifest"));
  CHECK(schema.valid(manifest));
  plan::Optimizer& optimizer = bundle.manifest.optimizer;
  optimizer.kind = "muon";
  optimizer.rest.emplace().kind = "adamw";
  optimizer.groups.push_back({"rest_decay", 0.01, true});
  CHECK(schema.valid_as(Json::parse(plan::print_manifest(bundle.manifest)), "manifest"));
  for (const plan::LrCurveInfo& info : plan::kLrCurves) {
    bundle.manifest.lr_schedule.kind = "phases";
    bundle.manifest.lr_schedule.phases.push_back({info.curve, 3});
  }
  CHECK(schema.valid_as(Json::parse(plan::print_manifest(bundle.manifest)), "manifest"));
  for (const auto& plan : bundle.ranks)
    CHECK(schema.valid_as(Json::parse(plan::print_rank_plan(plan, bundle.provenance, bundle.programs)), "rank_plan"));
  auto like = Json::parse(plan::print_rank_plan(bundle.ranks[1], bundle.provenance, bundle.programs, &bundle.ranks[0]));
  CHECK(schema.valid_as(like, "like_plan"));
  CHECK(schema.valid(like));
  for (const char* place :
       {"seed_step", "learning_rate", "loss", "grad_norm", "grad_squares", "dropped", "loss_scale", "overflow"}) {
    like[place] = "x+4";
    CHECK(schema.valid(like));
  }
  like["events"] = Json::array();
  CHECK(!schema.valid(like));
  // Infinity is beyond the numbers of the JSON library used here; everything else of a program is not.
  for (auto program : bundle.programs) {
    for (auto& call : program.calls)
      if (!call.attrs.empty()) call.attrs.erase(call.attrs.begin());
    CHECK(schema.valid_as(Json::parse(plan::print_program(program, bundle.manifest.chunks)), "program"));
  }
  CHECK(schema.valid_as(Json::parse(plan::print_provenance(bundle.provenance)), "provenance"));
}

TEST_CASE("the schema knows every instruction and parts of tensors") {
  const auto schema = load();
  auto bundle = plan::example::two_ranks();
  auto& plan = bundle.ranks[0];
  for (int kind = 0; !plan::kind_name(static_cast<plan::PlacementKind>(kind)).empty(); ++kind)
    plan.placements.push_back(
        {"w", static_cast<plan::PlacementKind>(kind), DType::kF32, {4, 8}, {{1, 0}, 8, 16, kind % 2 == 0}});
  plan::example::append(plan, 0, plan::ReduceScatter{{4, 0}, {5, 0}, 16, DType::kF32, 0, plan::Reduction::kSum}, 0);
  plan::example::append(plan, 0, plan::AllGather{{5, 0}, {4, 0}, 16, 0});
  plan::example::append(plan, 0, plan::AllToAll{{4, 0}, {5, 0}, 16, {}, {}, 0, 0});
  plan::example::append(plan, 0, plan::AllToAll{{4, 0}, {5, 0}, 16, {3, 0}, {3, 16}, 4, 0}, 1);
  const auto good = Json::parse(plan::print_rank_plan(plan, bundle.provenance, bundle.programs));
  CHECK(schema.valid_as(good, "rank_plan"));
  const size_t count = good["instructions"].size();
  for (const auto& [from_end, key] :
       {std::pair(4, "op"), std::pair(3, "dtype"), std::pair(2, "recv"), std::pair(1, "count")}) {
    auto changed = good;
    changed["instructions"][count - static_cast<size_t>(from_end)].erase(key);
    CHECK(!schema.valid(changed));
  }
  for (const auto& [from_end, key] : {std::pair(4, "out"), std::pair(3, "data")}) {  // in place
    auto changed = good;
    changed["instructions"][count - static_cast<size_t>(from_end)].erase(key);
    CHECK(schema.valid(changed));
  }
}

TEST_CASE("the schema refuses what is not of the format") {
  const auto schema = load();
  const auto bundle = plan::example::two_ranks();
  const auto good = Json::parse(plan::print_rank_plan(bundle.ranks[0], bundle.provenance, bundle.programs));
  auto changed = good;
  changed["colour"] = 1;
  CHECK(!schema.valid(changed));
  changed = good;
  changed["instructions"][0].erase("stream");
  CHECK(!schema.valid(changed));
  changed = good;
  changed["instructions"][0]["late"] = true;
  CHECK(!schema.valid(changed));
  changed = good;
  changed["buffers"][0]["class"] = "heap";
  CHECK(!schema.valid(changed));
  changed = good;
  changed["offsets"]["x"] = 3;
  CHECK(!schema.valid(changed));
  changed = good;
  changed["arena_bytes"] = "640";
  CHECK(!schema.valid(changed));
}

TEST_CASE("reference.json is as the schema says") {
  const Validator schema = load();
  plan::Reference reference;
  reference.program.slots = {{"x", plan::SlotRole::kInput, 3 * plan::Reference::kSamples, true, false},
                             {"c", plan::SlotRole::kConstant, 4, true, false},
                             {"d", plan::SlotRole::kConstant, 4, true, false},
                             {"y", plan::SlotRole::kOutput, 4, false, true}};
  reference.constants = {{1, std::string(64, 'a'), 0}, {2, "", 1.5}};
  plan::KernelCall call;
  call.kernel = "mul";
  call.inputs = {{0, 0, DType::kF32, {plan::Reference::kSamples, 3}, {3, 1}}, {2, 0, DType::kF32, {}, {}}};
  call.outputs = {{3, 0, DType::kF32, {plan::Reference::kSamples}, {1}}};
  reference.program.calls = {call};
  reference.lines = {"model.py:3"};
  reference.inputs = {{0, plan::Feed::kNextTokens}};
  const auto good = Json::parse(plan::print_reference(reference));
  CHECK(schema.valid_as(good, "reference"));
  CHECK(schema.valid(good));
  auto bad = good;
  bad["slots"][1]["each"] = 2;
  CHECK(schema.valid_as(bad, "reference"));
  bad["slots"][1].erase("sha256");
  CHECK_FALSE(schema.valid_as(bad, "reference"));
  bad["slots"][1].erase("each");
  bad["slots"][1]["sha256_of_each"] = std::string(64, 'a');
  CHECK(schema.valid_as(bad, "reference"));
  bad = good;
  CHECK(bad["slots"][0]["feed"] == "next_tokens");
  bad["slots"][0]["feed"] = "words";
  CHECK_FALSE(schema.valid_as(bad, "reference"));
  bad = good;
  bad["slots"][3]["feed"] = "tokens";
  CHECK_FALSE(schema.valid_as(bad, "reference"));
}
