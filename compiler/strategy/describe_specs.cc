#include "compiler/strategy/describe_specs.h"

#include <nlohmann/json.hpp>

#include "compiler/strategy/families.h"
#include "schemas/plan/lr_curves.h"
#include "schemas/plan/names.h"
#include "schemas/plan/optimizers.h"

namespace piper::strategy {
namespace {

using Json = nlohmann::ordered_json;

Json ref(const char* name) { return {{"$ref", std::string("#/$defs/") + name}}; }
Json text(const char* type) { return {{"type", type}}; }
Json whole(int64_t minimum) { return {{"type", "integer"}, {"minimum", minimum}}; }
Json number(double minimum) { return {{"type", "number"}, {"minimum", minimum}}; }
Json above_zero() { return {{"type", "number"}, {"exclusiveMinimum", 0}}; }
Json list_of(Json item) { return {{"type", "array"}, {"items", std::move(item)}}; }
Json choice(const std::vector<std::string_view>& words) { return {{"enum", words}}; }
Json object(Json properties, std::vector<std::string> required = {}) {
  Json result = {{"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}};
  if (!required.empty()) result["required"] = required;
  return result;
}
Json exactly_one(const std::vector<std::string_view>& keys) {
  Json list = Json::array();
  for (const std::string_view key : keys) list.push_back({{"required", Json::array({key})}});
  return list;
}

Json argument(const ArgSpec& arg) {
  switch (arg.kind) {
    case ArgKind::kFilter: return ref("filter");
    case ArgKind::kFilterGroups:
      return {{"type", "array"},
              {"minItems", 2},
              {"items", {{"type", "array"}, {"minItems", 1}, {"items", ref("filter")}}}};
    case ArgKind::kDevices: return ref("devices");
    case ArgKind::kDeviceGroups: return {{"anyOf", {ref("devices"), ref("mesh_groups"), list_of(ref("devices"))}}};
    case ArgKind::kRankGroups:
      return {{"anyOf", {text("string"), list_of(text("string")), ref("mesh_groups"), list_of(ref("devices"))}}};
    case ArgKind::kName: return text("string");
    case ArgKind::kChoice: return choice(arg.choices);
    case ArgKind::kCount: return whole(arg.least);
    case ArgKind::kMebibytes: return number(0);
    case ArgKind::kShare: return {{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", 1}};
    case ArgKind::kFlag: return text("boolean");
    case ArgKind::kCapacity:
      return object({{"factor", above_zero()}, {"overflow", choice({"drop", "error"})}}, {"factor"});
    case ArgKind::kGlobs: return {{"anyOf", {text("string"), ref("globs")}}};
  }
  return {};
}

Json directive(const DirectiveSpec& spec) {
  Json properties = {{"op", {{"const", spec.name}}}};
  std::vector<std::string> required = {"op"};
  for (const ArgSpec& arg : spec.args) {
    Json entry = argument(arg);
    entry["description"] = arg.doc;
    properties[std::string(arg.name)] = std::move(entry);
    if (arg.required) required.emplace_back(arg.name);
  }
  Json result = object(std::move(properties), required);
  result["description"] = spec.summary;
  return result;
}

Json model() {
  Json inputs = {{"type", "object"},
                 {"additionalProperties", choice({"tokens", "next_tokens", "positions", "documents"})}};
  const Json below_one = {{"type", "number"}, {"minimum", 0}, {"exclusiveMaximum", 1}};
  Json entropy = object({{"logits", text("string")},
                         {"labels", text("string")},
                         {"ignore_index", text("integer")},
                         {"label_smoothing", below_one},
                         {"z_loss", number(0)}},
                        {"logits", "labels"});
  Json mse = object({{"prediction", text("string")}, {"target", text("string")}}, {"prediction", "target"});
  Json loss = {
      {"oneOf",
       {text("string"), object({{"cross_entropy", entropy}}, {"cross_entropy"}), object({{"mse", mse}}, {"mse"})}}};
  return object({{"batch", whole(1)},
                 {"dims", {{"type", "object"}, {"additionalProperties", whole(1)}}},
                 {"loss", loss},
                 {"inputs", inputs},
                 {"documents", choice({"mask"})},
                 {"freeze", ref("globs")},
                 {"train", ref("globs")}});
}

Json annotation() {
  Json entry = object({{"tag", text("string")},
                       {"starts", ref("globs")},
                       {"stages", whole(1)},
                       {"balance", choice({"flops"})},
                       {"modules", ref("globs")}},
                      {"tag"});
  entry["oneOf"] = exactly_one({"starts", "stages", "modules"});
  return entry;
}

Json schedule() {
  Json rank_group = {{"oneOf", {whole(0), ref("devices")}}};
  Json ranks = {{"anyOf", {list_of(rank_group), ref("rank_range"), ref("mesh_groups")}}};
  Json entry = object({{"family", choice(family_names())},
                       {"csv", text("string")},
                       {"microbatches", whole(1)},
                       {"stages", text("string")},
                       {"ranks", ranks},
                       {"virtual", whole(1)}});
  entry["oneOf"] = exactly_one({"family", "csv"});
  return entry;
}

// {NAME: {lr: ..}} of every optimizer, or of those alone that do not ask for whole matrices.
Json optimizer(bool with_rest) {
  Json beta = {{"type", "number"}, {"minimum", 0}, {"exclusiveMaximum", 1}};
  const Json betas = {{"type", "array"}, {"items", beta}, {"minItems", 2}, {"maxItems", 2}};
  Json kinds = Json::object();
  std::vector<std::string_view> names;
  for (const plan::OptimizerInfo& info : plan::kOptimizers) {
    if (info.of_matrices && !with_rest) continue;
    const bool orthogonal = info.has(plan::OptimizerInfo::kOrthogonal);
    Json numbers = {{"lr", info.of_matrices ? above_zero() : number(0)}};
    if (info.has(plan::OptimizerInfo::kMomentum)) {
      numbers["momentum"] = orthogonal ? beta : number(0);
      numbers["nesterov"] = text("boolean");
    }
    if (info.has(plan::OptimizerInfo::kBetas)) numbers["betas"] = betas;
    if (info.has(plan::OptimizerInfo::kEps)) numbers["eps"] = number(0);
    if (orthogonal) {
      std::vector<std::string_view> rules;
      for (const plan::RateByShape rule : plan::kRatesByShape) rules.push_back(plan::rate_by_shape_name(rule));
      numbers["steps"] = {{"type", "integer"}, {"minimum", 1}, {"maximum", plan::kMostOrthogonalSteps}};
      numbers["adjust"] = choice(rules);
    }
    numbers["weight_decay"] = number(0);
    numbers["no_decay"] = ref("globs");
    Json group = {{"match", ref("globs")}, {"lr_factor", above_zero()}, {"weight_decay", number(0)}};
    if (info.has(plan::OptimizerInfo::kBetas)) group["betas"] = betas;
    numbers["groups"] = list_of(object(group, {"match"}));
    if (info.of_matrices) {
      numbers["except"] = ref("globs");
      numbers["rest"] = optimizer(false);
    }
    names.push_back(info.name);
    kinds[std::string(info.name)] = info.of_matrices ? object(numbers, {"lr", "rest"}) : object(numbers, {"lr"});
  }
  Json entry = object(kinds);
  entry["oneOf"] = exactly_one(names);
  return entry;
}

Json lr_schedule() {
  using plan::LrCurveInfo;
  Json whole_schedule, phase;
  std::vector<std::string_view> shapes, names;
  for (const LrCurveInfo& info : plan::kLrCurves) {
    names.push_back(info.name);
    Json numbers = Json::object();
    if (info.has(LrCurveInfo::kTo)) numbers["to"] = number(0);
    if (info.has(LrCurveInfo::kPower)) numbers["power"] = above_zero();
    if (info.has(LrCurveInfo::kTimescale)) numbers["timescale"] = above_zero();
    if (info.numbers == LrCurveInfo::kTo) shapes.push_back(info.name);
    const bool constant = info.curve == plan::LrCurve::kConstant;
    Json alone = numbers, in_list = numbers;
    if (info.has(LrCurveInfo::kTo)) alone["until"] = whole(1);
    in_list["from"] = number(0);
    const std::string name(info.name);
    const std::vector<std::string> until(info.has(LrCurveInfo::kTo) ? 1 : 0, "until");
    whole_schedule[name] = constant ? number(0) : object(alone, until);
    phase[name] = constant ? number(0) : object(in_list);
  }
  phase["steps"] = whole(1);
  Json one_phase = object(phase);
  one_phase["oneOf"] = exactly_one(names);
  whole_schedule["wsd"] = object(
      {{"until", whole(1)}, {"decay", whole(1)}, {"to", number(0)}, {"shape", choice(shapes)}}, {"until", "decay"});
  whole_schedule["phases"] = {{"type", "array"}, {"minItems", 1}, {"items", one_phase}};
  whole_schedule["warmup"] = whole(0);
  return object(whole_schedule);
}

Json precision() {
  Json scale = {{"oneOf", {choice({"none", "dynamic"}), above_zero()}}};
  return object({{"compute", choice({"bf16", "f16"})},
                 {"master", choice({"f32"})},
                 {"reduce", choice({"f32", "bf16"})},
                 {"loss_scale", scale},
                 {"keep", ref("globs")}});
}

Json definitions(std::span<const DirectiveSpec* const> specs) {
  Json index = {{"oneOf", {whole(0), {{"type", "string"}, {"pattern", "^[0-9]+\\.\\.[0-9]+$"}}}}};
  Json value = {
      {"oneOf", {ref("index"), choice({"*", "-"}), {{"type", "array"}, {"minItems", 1}, {"items", ref("index")}}}}};
  Json all = Json::array();
  for (const DirectiveSpec* spec : specs) all.push_back(ref(std::string(spec->name).c_str()));
  Json defs = {
      {"index", index},
      {"filter",
       {{"type", "object"},
        {"properties", {{"PASS", choice({"F", "B", "BI", "BW"})}}},
        {"additionalProperties", value}}},
      {"devices",
       {{"oneOf",
         {{{"type", "array"}, {"minItems", 1}, {"uniqueItems", true}, {"items", whole(0)}},
          ref("rank_range"),
          {{"type", "object"}, {"additionalProperties", value}}}}}},
      {"rank_range", {{"type", "string"}, {"pattern", "^[0-9]+\\.\\.[0-9]+$"}}},
      {"mesh_groups", {{"type", "object"}, {"additionalProperties", {{"oneOf", {value, choice({"each"})}}}}}},
      {"globs", list_of({{"type", "string"}, {"minLength", 1}})},
  };
  for (const DirectiveSpec* spec : specs) defs[std::string(spec->name)] = directive(*spec);
  defs["directives"] = list_of({{"oneOf", all}});
  return defs;
}

std::string_view kind_name(ArgKind kind) {
  switch (kind) {
    case ArgKind::kFilter: return "filter";
    case ArgKind::kFilterGroups: return "list of groups of filters";
    case ArgKind::kDevices: return "list of ranks, range, or ranks of the mesh";
    case ArgKind::kDeviceGroups: return "list of ranks, range, or ranks of the mesh; or list of such lists";
    case ArgKind::kRankGroups: return "axis of the mesh, or list of axes; or list of lists of ranks";
    case ArgKind::kName: return "name";
    case ArgKind::kChoice: return "one of";
    case ArgKind::kCount: return "whole number";
    case ArgKind::kMebibytes: return "MiB";
    case ArgKind::kShare: return "number above 0, at most 1";
    case ArgKind::kFlag: return "true or false";
    case ArgKind::kCapacity: return "{factor: number, overflow: drop | error}";
    case ArgKind::kGlobs: return "glob, or list of globs";
  }
  return "";
}

}  // namespace

std::string help_text(const DirectiveSpec& spec) {
  std::string out = std::string(spec.name) + ": " + std::string(spec.summary) + "\n\n" + std::string(spec.doc) + "\n\n";
  for (const ArgSpec& arg : spec.args) {
    out += "  " + std::string(arg.name) + " (" + std::string(kind_name(arg.kind));
    for (size_t i = 0; i < arg.choices.size(); ++i) out += (i > 0 ? ", " : " ") + std::string(arg.choices[i]);
    if (arg.required) {
      out += "; required";
    } else if (!arg.default_text.empty()) {
      out += "; default " + std::string(arg.default_text);
    }
    out += ")\n      " + std::string(arg.doc) + "\n";
  }
  return out + "\nexample: " + std::string(spec.example) + "\n";
}

std::string reference_page(std::span<const DirectiveSpec* const> specs) {
  std::string out =
      "# Directives\n\nA strategy contains directives. They say how the model is divided over devices, and in which "
      "order it runs. This page is the reference for all directives and their fields. [The strategy "
      "language](strategy-language.md#directives) explains how they work together. [Tensor and expert "
      "parallelism](tensor-parallelism.md) explains `shard`, and [pipeline "
      "schedules](schedules.md#schedules-of-your-own) explains `order`.\n\nThis page is generated from the specs in "
      "compiler/directives. `piperc --help-directive NAME` prints the section of one directive.\n";
  for (const DirectiveSpec* spec : specs) {
    out += "\n## " + std::string(spec->name) + "\n\n" + std::string(spec->summary) + "\n\n" + std::string(spec->doc) +
           "\n\n| field | value | default | meaning |\n|---|---|---|---|\n";
    for (const ArgSpec& arg : spec->args) {
      std::string value(kind_name(arg.kind));
      for (size_t i = 0; i < arg.choices.size(); ++i)
        value += (i > 0 ? ", `" : " `") + std::string(arg.choices[i]) + "`";
      for (size_t bar = value.find(" | "); bar != std::string::npos; bar = value.find(" | ", bar + 4)) {
        value.replace(bar, 3, " \\| ");
      }
      out += "| `" + std::string(arg.name) + "` | " + value + " | " +
             (arg.required ? std::string("required") : std::string(arg.default_text)) + " | " + std::string(arg.doc) +
             " |\n";
    }
    out += "\n    - " + std::string(spec->example) + "\n";
  }
  return out;
}

std::string json_schema(std::span<const DirectiveSpec* const> specs) {
  Json streams = {
      {"type", "object"},
      {"additionalProperties", object({{"priority", choice({"high", "normal", "low"})}, {"max_ctas", whole(1)}})}};
  Json entry = object({{"path", {{"type", "string"}, {"minLength", 1}}}, {"weight", above_zero()}}, {"path"});
  Json mix = {{"type", "array"}, {"minItems", 1}, {"items", entry}};
  Json run = object({{"data", {{"oneOf", {text("string"), mix}}}},
                     {"document_end", whole(0)},
                     {"steps", whole(1)},
                     {"seed", whole(0)},
                     {"sampling", choice({"sequential", "shuffled"})}});
  Json eval = object({{"data", text("string")}, {"every", whole(1)}, {"batches", whole(1)}});
  Json program =
      object({{"piper", {{"const", 1}}},
              {"mesh", {{"type", "object"}, {"minProperties", 1}, {"additionalProperties", whole(1)}}},
              {"node", object({{"ranks", whole(1)}, {"inside", list_of(text("string"))}}, {"ranks", "inside"})},
              {"model", model()},
              {"annotate", list_of(annotation())},
              {"directives", ref("directives")},
              {"schedule", schedule()},
              {"streams", streams},
              {"per_microbatch", ref("globs")},
              {"optimizer", optimizer(true)},
              {"lr_schedule", lr_schedule()},
              {"clip_grad_norm", above_zero()},
              {"precision", precision()},
              {"head", object({{"blocks", {{"oneOf", {choice({"auto", "off"}), whole(1)}}}}})},
              {"run", run},
              {"eval", eval}});
  Json root = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
               {"title", "piper strategy"},
               {"oneOf", {program, ref("directives")}},
               {"$defs", definitions(specs)}};
  return root.dump(1) + "\n";
}

}  // namespace piper::strategy
