// The sections about the model: `model`, `annotate`, `schedule`, `streams`.
#include <limits>

#include "compiler/strategy/load_sections.h"
#include "schemas/plan/names.h"

namespace piper::strategy {
namespace {

constexpr int64_t kMaxCount = 1 << 20;

std::string read_or_empty(ReadContext& context, const Value* value, const std::string& what) {
  return value == nullptr ? "" : read_string(context, *value, what).value_or("");
}

void load_loss(ReadContext& context, const Value& value, LossChoice& loss) {
  loss.span = value.span;
  if (value.kind == Value::Kind::kString) {
    loss.kind = LossChoice::Kind::kOutput;
    loss.output = read_string(context, value, "'loss'").value_or("");
    return;
  }
  if (value.kind != Value::Kind::kMap) {
    context.diags.error("P0202", value.span).help("for example {cross_entropy: {logits: logits, labels: labels}}")
        << "'loss' must be the name of an output, or a mapping, not " << describe(value);
    return;
  }
  MapReader reader(context, value, "'loss'");
  if (reader.alternatives({"cross_entropy", "mse"}) == 0)
    reader.needs({"cross_entropy", "mse"}, "'loss' needs 'cross_entropy' or 'mse'",
                 "for example {cross_entropy: {logits: logits, labels: labels}}");
  if (const Value* entropy = reader.get("cross_entropy")) {
    MapReader inner(context, *entropy, "'cross_entropy'");
    loss.kind = LossChoice::Kind::kCrossEntropy;
    loss.logits = read_or_empty(
        context, inner.require("logits", "name an output of the model: {logits: logits, labels: labels}"), "'logits'");
    loss.labels = read_or_empty(
        context, inner.require("labels", "name an input of the model: {logits: logits, labels: labels}"), "'labels'");
    if (const Value* ignore = inner.get("ignore_index")) {
      loss.ignore_index = read_int(context, *ignore, "'ignore_index'", -std::numeric_limits<int64_t>::max(),
                                   std::numeric_limits<int64_t>::max())
                              .value_or(-100);
    }
    read_bounded(context, inner.get("label_smoothing"), "'label_smoothing'", {0, 1}, loss.label_smoothing);
    read_bounded(context, inner.get("z_loss"), "'z_loss'", {}, loss.z_loss);
    inner.finish();
  }
  if (const Value* mse = reader.get("mse")) {
    MapReader inner(context, *mse, "'mse'");
    loss.kind = LossChoice::Kind::kMse;
    loss.logits = read_or_empty(
        context, inner.require("prediction", "name an output of the model: {prediction: y, target: target}"),
        "'prediction'");
    loss.labels = read_or_empty(
        context, inner.require("target", "name an input of the model: {prediction: y, target: target}"), "'target'");
    inner.finish();
  }
  reader.finish();
}

// `inputs` has been read.
void load_documents(ReadContext& context, const Value& value, ModelConfig& model) {
  if (!read_choice(context, value, "'documents'", {"mask"})) return;
  model.masks_documents = true;
  model.documents_span = value.span;
  for (const auto& [name, role] : model.inputs)
    if (role.feed == plan::Feed::kDocuments) return;
  model.inputs["documents"] = {plan::Feed::kDocuments, value.span};
}

void load_annotation(ReadContext& context, const Value& value, Strategy& out) {
  MapReader reader(context, value, "an 'annotate' entry");
  if (!reader.ok()) return;
  Annotation annotation;
  annotation.span = value.span;
  if (const Value* tag = reader.require("tag", "for example {tag: PP, starts: [\"h.0\", \"h.4\"]}")) {
    annotation.tag = read_string(context, *tag, "'tag'").value_or("");
    if (annotation.tag == "PASS" || annotation.tag == "MB") {
      context.diags.error("P0207", tag->span).help("choose another name")
          << "the tag '" << annotation.tag << "' is made by the compiler";
    }
    if (has_control_character(annotation.tag))
      context.diags.error("P0207", tag->span) << "a tag must be one line, without control characters";
  }
  if (reader.alternatives({"starts", "stages", "modules"}) == 0)
    reader.needs({"starts", "stages", "modules"}, "an 'annotate' entry needs 'starts', 'stages' or 'modules'",
                 "for example starts: [\"*.h.0\", \"*.h.4\"]");
  auto read_globs = [&](const Value& globs, Annotation::Kind kind, const std::string& what) {
    annotation.kind = kind;
    annotation.globs = read_strings(context, globs, what);
    annotation.glob_spans = item_spans(globs);
    if (globs.kind == Value::Kind::kList && globs.items.empty()) {
      context.diags.error("P0207", globs.span) << what << " is empty; name at least one module";
    }
  };
  if (const Value* starts = reader.get("starts")) read_globs(*starts, Annotation::Kind::kStarts, "'starts'");
  if (const Value* modules = reader.get("modules")) read_globs(*modules, Annotation::Kind::kModules, "'modules'");
  const Value* stages = reader.get("stages");
  if (stages != nullptr) {
    annotation.kind = Annotation::Kind::kStages;
    annotation.stages = read_int(context, *stages, "'stages'", 1, kMaxCount).value_or(1);
  }
  if (const Value* balance = reader.get("balance")) {
    read_choice(context, *balance, "'balance'", {"flops"});
    if (stages == nullptr) {
      context.diags.error("P0208", reader.key_span("balance")) << "'balance' belongs to 'stages'";
    }
  }
  reader.finish();
  out.annotations.push_back(std::move(annotation));
}

}  // namespace

void load_model(ReadContext& context, const Value& value, Strategy& out) {
  MapReader reader(context, value, "'model'");
  ModelConfig& model = out.model;
  model.span = value.span;
  if (const Value* batch = reader.get("batch")) {
    model.batch_span = batch->span;
    model.batch = read_int(context, *batch, "'batch'", 1, int64_t{1} << 40);
  }
  if (const Value* dims = reader.get("dims")) {
    if (dims->kind != Value::Kind::kMap) {
      context.diags.error("P0202", dims->span).help("for example {S: 128}")
          << "'dims' must be a mapping from symbols to numbers, not " << describe(*dims);
    }
    for (size_t i = 0; i < dims->keys.size(); ++i) {
      const auto extent = read_int(context, dims->items[i], "'" + dims->keys[i].text + "'", 1, int64_t{1} << 40);
      if (extent) model.dims[dims->keys[i].text] = *extent;
    }
  }
  if (const Value* loss = reader.get("loss")) load_loss(context, *loss, model.loss);
  if (const Value* inputs = reader.get("inputs")) {
    if (inputs->kind != Value::Kind::kMap) {
      context.diags.error("P0202", inputs->span).help("for example {input_ids: tokens, labels: next_tokens}")
          << "'inputs' must be a mapping from graph inputs to their role, not " << describe(*inputs);
    }
    for (size_t i = 0; i < inputs->keys.size(); ++i) {
      const auto role = read_choice(context, inputs->items[i], "the role of '" + inputs->keys[i].text + "'",
                                    {"tokens", "next_tokens", "positions", "documents"});
      if (!role) continue;
      const auto feed = plan::enum_from_name<plan::Feed>(*role, plan::feed_name);
      model.inputs[inputs->keys[i].text] = {feed.value_or(plan::Feed::kTokens), inputs->items[i].span};
    }
  }
  if (const Value* documents = reader.get("documents")) load_documents(context, *documents, model);
  if (const Value* freeze = reader.get("freeze")) {
    model.freeze = read_strings(context, *freeze, "'freeze'");
    model.freeze_spans = item_spans(*freeze);
  }
  if (const Value* train = reader.get("train")) {
    model.train = read_strings(context, *train, "'train'");
    model.train_spans = item_spans(*train);
  }
  reader.finish();
}

void load_annotations(ReadContext& context, const Value& value, Strategy& out) {
  if (value.kind != Value::Kind::kList) {
    context.diags.error("P0202", value.span).help("for example [{tag: PP, starts: [\"*.h.0\", \"*.h.4\"]}]")
        << "'annotate' must be a list, not " << describe(value);
    return;
  }
  for (const Value& item : value.items) load_annotation(context, item, out);
}

void load_schedule(ReadContext& context, const Value& value, Strategy& out) {
  MapReader reader(context, value, "'schedule'");
  if (!reader.ok()) return;
  Schedule schedule;
  schedule.span = value.span;
  if (reader.alternatives({"family", "csv"}) == 0)
    reader.needs({"family", "csv"}, "'schedule' needs 'family' or 'csv'",
                 "for example {family: 1f1b, microbatches: 8}");
  if (const Value* family = reader.get("family")) {
    schedule.family_span = family->span;
    schedule.family = read_string(context, *family, "'family'").value_or("");
  }
  if (const Value* csv = reader.get("csv")) {
    schedule.family_span = csv->span;
    schedule.csv = read_string(context, *csv, "'csv'").value_or("");
  }
  if (const Value* count = reader.get("microbatches")) {
    schedule.microbatches = read_int(context, *count, "'microbatches'", 1, kMaxCount);
  } else if (value.find("family") != nullptr && value.find("microbatches") == nullptr) {
    reader.needs({"microbatches"}, "a 'schedule' with a family needs 'microbatches'", "add microbatches: N");
  }
  if (const Value* tag = reader.get("stages")) {
    schedule.stages_tag = read_string(context, *tag, "'stages' (the tag that numbers the stages)").value_or("PP");
  }
  if (const Value* ranks = reader.get("ranks")) {
    schedule.ranks = read_device_groups(context, *ranks, "'ranks'", true);
  }
  if (const Value* count = reader.get("virtual")) {
    schedule.virtual_stages = read_int(context, *count, "'virtual'", 1, kMaxCount);
  }
  if (value.find("csv") != nullptr) reader.alternatives({"csv", "virtual"});
  reader.finish();
  out.schedule = std::move(schedule);
}

void load_streams(ReadContext& context, const Value& value, Strategy& out) {
  if (value.kind != Value::Kind::kMap) {
    context.diags.error("P0202", value.span).help("for example {ep: {priority: high, max_ctas: 8}}")
        << "'streams' must be a mapping from stream names to resources, not " << describe(value);
    return;
  }
  for (size_t i = 0; i < value.keys.size(); ++i) {
    StreamConfig config;
    config.name = value.keys[i].text;
    config.span = value.keys[i].span;
    MapReader reader(context, value.items[i], "the stream '" + config.name + "'");
    if (const Value* priority = reader.get("priority")) {
      const auto choice = read_choice(context, *priority, "'priority'", {"high", "normal", "low"});
      config.priority = choice == "high"  ? plan::Priority::kHigh
                        : choice == "low" ? plan::Priority::kLow
                                          : plan::Priority::kNormal;
    }
    if (const Value* ctas = reader.get("max_ctas")) {
      config.max_ctas = read_int(context, *ctas, "'max_ctas'", 1, 1024).value_or(0);
    }
    reader.finish();
    out.streams.push_back(std::move(config));
  }
}

}  // namespace piper::strategy
