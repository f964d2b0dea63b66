// The sections about training: `optimizer`, `run`, `eval`. Defaults are PyTorch's.
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/strategy/load_sections.h"
#include "schemas/plan/names.h"
#include "schemas/plan/optimizers.h"

namespace piper::strategy {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxToken = std::numeric_limits<uint32_t>::max();

std::optional<std::pair<double, double>> read_betas(ReadContext& context, const Value& value) {
  std::pair<double, double> betas;
  if (value.kind != Value::Kind::kList || value.items.size() != 2) {
    context.diags.error("P0202", value.span).help("for example [0.9, 0.95]") << "'betas' must be a list of two numbers";
    return std::nullopt;
  }
  read_bounded(context, &value.items[0], "the first of 'betas'", {0, 1}, betas.first);
  read_bounded(context, &value.items[1], "the second of 'betas'", {0, 1}, betas.second);
  return betas;
}

std::vector<GroupConfig> read_parameter_groups(ReadContext& context, const Value& value,
                                               const plan::OptimizerInfo& info) {
  std::vector<GroupConfig> groups;
  if (value.kind != Value::Kind::kList) {
    context.diags.error("P0202", value.span).help("for example [{match: [\"*embed*\"], lr_factor: 0.1}]")
        << "'groups' must be a list of mappings, not " << describe(value);
    return groups;
  }
  for (const Value& item : value.items) {
    MapReader reader(context, item, "a group of parameters");
    if (!reader.ok()) continue;
    GroupConfig group;
    if (const Value* globs = reader.require("match", "add globs of parameters, as in {match: ['*embed*']}")) {
      group.match = read_strings(context, *globs, "'match'");
      for (const Value& glob : globs->items) group.match_spans.push_back(glob.span);
    }
    if (const Value* factor = reader.get("lr_factor")) {
      read_bounded(context, factor, "'lr_factor'", {}, group.lr_factor);
      if (group.lr_factor == 0)
        context.diags.error("P0207", factor->span).help("`model.freeze` leaves parameters as they are")
            << "'lr_factor' must be greater than 0";
    }
    if (const Value* decay = reader.get("weight_decay"))
      read_bounded(context, decay, "'weight_decay'", {}, group.weight_decay.emplace());
    if (info.has(plan::OptimizerInfo::kBetas))
      if (const Value* betas = reader.get("betas"))
        if (const auto read = read_betas(context, *betas)) group.beta1 = read->first, group.beta2 = read->second;
    reader.finish();
    groups.push_back(std::move(group));
  }
  return groups;
}

// Newton-Schulz, and how the rate follows the shape.
void read_orthogonal(ReadContext& context, MapReader& inner, plan::OptimizerNumbers& out) {
  if (const Value* steps = inner.get("steps"))
    out.steps = read_int(context, *steps, "'steps'", 1, plan::kMostOrthogonalSteps).value_or(out.steps);
  const Value* adjust = inner.get("adjust");
  if (adjust == nullptr) return;
  std::vector<std::string> words;
  for (const plan::RateByShape rule : plan::kRatesByShape) words.emplace_back(plan::rate_by_shape_name(rule));
  const auto word = read_choice(context, *adjust, "'adjust'", words);
  for (const plan::RateByShape rule : plan::kRatesByShape)
    if (word && *word == plan::rate_by_shape_name(rule)) out.adjust = rule;
}

// The numbers of one optimizer, with the defaults of its row.
void read_numbers(ReadContext& context, MapReader& inner, const plan::OptimizerInfo& info, UpdateConfig& out) {
  plan::OptimizerNumbers& values = out.values;
  values.kind = std::string(info.name);
  values.beta1 = info.beta1;
  values.beta2 = info.beta2;
  values.eps = info.eps;
  values.momentum = info.momentum;
  values.nesterov = info.momentum > 0;
  out.weight_decay = info.weight_decay;
  read_bounded(context, inner.require("lr", "for example lr: 3.0e-4"), "'lr'", {}, values.lr);
  read_bounded(context, inner.get("weight_decay"), "'weight_decay'", {}, out.weight_decay);
  if (const Value* globs = inner.get("no_decay")) {
    out.no_decay = read_strings(context, *globs, "'no_decay'");
    out.no_decay_spans = item_spans(*globs);
  }
  if (const Value* groups = inner.get("groups")) out.groups = read_parameter_groups(context, *groups, info);
  if (info.has(plan::OptimizerInfo::kMomentum)) {
    const Bounds bounds = info.has(plan::OptimizerInfo::kOrthogonal) ? Bounds{0, 1} : Bounds{};
    read_bounded(context, inner.get("momentum"), "'momentum'", bounds, values.momentum);
    values.nesterov = values.nesterov && values.momentum > 0;
    if (const Value* nesterov = inner.get("nesterov")) {
      values.nesterov = read_bool(context, *nesterov, "'nesterov'").value_or(false);
      if (values.nesterov && values.momentum == 0) {
        context.diags.error("P0207", nesterov->span) << "'nesterov' needs a 'momentum' greater than 0";
      }
    }
  }
  if (info.has(plan::OptimizerInfo::kBetas))
    if (const Value* betas = inner.get("betas"))
      if (const auto read = read_betas(context, *betas)) values.beta1 = read->first, values.beta2 = read->second;
  if (info.has(plan::OptimizerInfo::kEps)) read_bounded(context, inner.get("eps"), "'eps'", {}, values.eps);
  if (info.has(plan::OptimizerInfo::kOrthogonal)) read_orthogonal(context, inner, values);
}

// {NAME: {lr: ..}} of the optimizers that may be there. `more` reads what else is under the name of one that
// takes matrices.
template <class MayStand, class More>
void read_update(ReadContext& context, const Value& value, const std::string& what, MayStand may_stand,
                 UpdateConfig& out, More more) {
  MapReader reader(context, value, what);
  if (!reader.ok()) return;
  std::vector<std::string_view> kinds;
  for (const plan::OptimizerInfo& info : plan::kOptimizers)
    if (may_stand(info)) kinds.push_back(info.name);
  if (reader.alternatives(kinds) == 0) {
    reader.needs(kinds, what + " needs " + one_of({kinds.begin(), kinds.end()}), "for example {adamw: {lr: 3.0e-4}}");
  }
  for (const std::string_view kind : kinds) {
    const Value* fields = reader.get(kind);
    if (fields == nullptr) continue;
    const plan::OptimizerInfo& info = *plan::find_optimizer(kind);
    MapReader inner(context, *fields, "'" + std::string(kind) + "'");
    read_numbers(context, inner, info, out);
    if (info.of_matrices) more(inner, *fields);
    inner.finish();
  }
  reader.finish();
}

// What an optimizer of matrices leaves to another one.
void read_rest(ReadContext& context, MapReader& inner, const Value& fields, OptimizerConfig& out) {
  if (const Value* globs = inner.get("except")) {
    out.except = read_strings(context, *globs, "'except'");
    out.except_spans = item_spans(*globs);
  }
  if (out.values.lr == 0) context.diags.error("P0207", fields.span) << "'lr' must be greater than 0";
  const Value* rest = inner.get("rest");
  if (rest == nullptr) {
    inner.needs({"rest"}, "'" + out.values.kind + "' needs 'rest', the optimizer of what is no hidden layer's matrix",
                "for example rest: {adamw: {lr: 3.0e-4}}");
    return;
  }
  read_update(
      context, *rest, "'rest'", [](const plan::OptimizerInfo& info) { return !info.of_matrices; }, out.rest.emplace(),
      [](MapReader&, const Value&) {});
}

// One path, or a mix of several.
void read_data(ReadContext& context, const Value& value, std::vector<plan::DataPath>& out) {
  if (value.kind == Value::Kind::kString) {
    if (const auto path = read_string(context, value, "'data'"))
      out.push_back({*path, 0, context.diags.place(value.span)});
    return;
  }
  constexpr const char* kExample = "for example [{path: web.bin, weight: 3}, {path: books, weight: 1}]";
  if (value.kind != Value::Kind::kList) {
    context.diags.error("P0202", value.span).help(kExample)
        << "'data' must be a path, or a list of paths with weights, not " << describe(value);
    return;
  }
  if (value.items.empty() || value.items.size() > plan::kMaxDataPaths)
    context.diags.error("P0207", value.span).help(kExample)
        << "'data' " << (value.items.empty() ? "is empty; name at least one path" : "has more than 2^20 entries");
  for (const Value& item : value.items) {
    MapReader reader(context, item, "an entry of 'data'");
    if (!reader.ok()) continue;
    plan::DataPath data{"", 1, context.diags.place(item.span)};
    if (const Value* path = reader.require("path", "for example {path: web.bin, weight: 3}"))
      data.path = read_string(context, *path, "'path'").value_or("");
    if (const Value* weight = reader.get("weight")) {
      data.weight = read_number(context, *weight, "'weight'").value_or(1);  // the misfit is reported
      if (data.weight <= 0)
        context.diags.error("P0207", weight->span)
                .help("weights are relative: 3 and 1 are 75 % and 25 % of the samples")
            << "'weight' must be greater than 0, not " << data.weight;
    }
    reader.finish();
    out.push_back(std::move(data));
  }
}

}  // namespace

void load_optimizer(ReadContext& context, const Value& value, Strategy& out) {
  OptimizerConfig config;
  config.span = value.span;
  read_update(
      context, value, "'optimizer'", [](const plan::OptimizerInfo&) { return true; }, config,
      [&](MapReader& inner, const Value& fields) { read_rest(context, inner, fields, config); });
  out.optimizer = std::move(config);
}

void load_run(ReadContext& context, const Value& value, Strategy& out) {
  MapReader reader(context, value, "'run'");
  if (const Value* data = reader.get("data")) read_data(context, *data, out.run.data);
  if (const Value* end = reader.get("document_end")) {
    out.document_end_span = end->span;
    out.run.document_end = read_int(context, *end, "'document_end'", 0, kMaxToken).value_or(-1);
  }
  if (const Value* steps = reader.get("steps")) {
    out.run.steps = read_int(context, *steps, "'steps'", 1, kMaxInt).value_or(0);
  }
  if (const Value* seed = reader.get("seed")) {
    out.run.seed = static_cast<uint64_t>(read_int(context, *seed, "'seed'", 0, kMaxInt).value_or(0));
  }
  if (const Value* sampling = reader.get("sampling")) {
    out.run.sampling = read_choice(context, *sampling, "'sampling'", {"sequential", "shuffled"}).value_or("");
  }
  reader.finish();
}

void check_documents(ReadContext& context, const Strategy& strategy) {
  bool used = false;
  for (const auto& [name, role] : strategy.model.inputs) {
    if (role.feed != plan::Feed::kPositions && role.feed != plan::Feed::kDocuments) continue;
    used = true;
    if (strategy.document_end_span.file == 0)
      context.diags.error("P0206", role.span).help("add document_end: TOKEN under 'run'")
          << "'" << name << "' needs the ends of documents, but 'run' does not set 'document_end'";
  }
  if (!used && strategy.document_end_span.file != 0)
    context.diags.error("P0244", strategy.document_end_span)
            .help(
                "add it under 'inputs' of 'model', for example {position_ids: positions}, or documents: mask to "
                "'model'")
        << "'document_end' has no effect, because no input takes 'positions' or 'documents'";
}

void load_eval(ReadContext& context, const Value& value, Strategy& out) {
  out.eval_span = value.span;
  plan::Evaluation& eval = out.eval.emplace();
  MapReader reader(context, value, "'eval'");
  if (const Value* data = reader.get("data")) eval.data = read_string(context, *data, "'data'").value_or("");
  if (const Value* every = reader.get("every"))
    eval.every = read_int(context, *every, "'every'", 1, kMaxInt).value_or(0);
  if (const Value* batches = reader.get("batches")) {
    eval.batches = read_int(context, *batches, "'batches'", 1, kMaxInt).value_or(0);
  }
  reader.finish();
}

}  // namespace piper::strategy
