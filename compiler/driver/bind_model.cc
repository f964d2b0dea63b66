#include "compiler/driver/bind_model.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/autodiff/autodiff.h"
#include "compiler/diag/diagnostics.h"
#include "compiler/directives/shard.h"
#include "compiler/directives/split.h"
#include "compiler/analysis/model_flops.h"
#include "compiler/diag/unmatched_globs.h"
#include "compiler/frontend/patterns/mask_documents.h"
#include "compiler/regions/cut_chunks.h"
#include "compiler/regions/refine_variants.h"
#include "compiler/strategy/directive_args.h"
#include "schemas/base/glob.h"

namespace piper::driver {
namespace {

const ir::Graph::Output* find_output(const ir::Graph& graph, const std::string& name) {
  for (const ir::Graph::Output& output : graph.outputs)
    if (output.name == name) return &output;
  return nullptr;
}

std::vector<std::string> output_names(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::Graph::Output& output : graph.outputs) names.push_back(output.name);
  return names;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Status unknown_output(const ir::Graph& graph, const std::string& name, const diag::Span& span,
                      diag::Diagnostics& diags) {
  auto error = diags.error("P0237", span);
  error << "the model has no output '" << name << "'";
  error.note("its outputs: " + joined(output_names(graph)));
  const std::string near = diag::nearest(name, output_names(graph));
  if (!near.empty()) error.help("did you mean '" + near + "'?");
  return error;
}

// The value of a graph input of that name, made with the given type where the model has none.
ir::ValueId input_or_new(ir::Graph& graph, const std::string& name, const ir::TensorType& type) {
  for (const ir::Input& input : graph.inputs())
    if (input.name == name) return input.value;
  return graph.add_input(name, type, true);
}

// The factor times the mean of log(sum(exp(logits)))^2 over the rows whose label counts.
ir::ValueId z_loss(ir::GraphBuilder& b, ir::ValueId rows, ir::ValueId labels, const strategy::LossChoice& choice) {
  const DType type = is_half(b.type(rows).dtype) ? DType::kF32 : b.type(rows).dtype;
  const ir::ValueId logits = b.cast(rows, type);
  const ir::ValueId likelihoods = b.add1(ir::OpKind::kLogSoftmax, {logits}, ir::DimAttrs{1});
  // log_softmax takes the same number off every class of a row.
  const ir::ValueId first = b.slice(logits, 1, 0, 1), less = b.slice(likelihoods, 1, 0, 1);
  const ir::ValueId z = b.reshape(b.add1(ir::OpKind::kSub, {first, less}), b.type(labels).shape);
  const ir::ValueId ignored =
      b.add1(ir::OpKind::kEq, {labels, b.scalar(static_cast<double>(choice.ignore_index), DType::kI64)});
  const ir::ValueId counted = b.add1(ir::OpKind::kWhere, {ignored, b.scalar(0, type), b.scalar(1, type)});
  const ir::ValueId squares = b.add1(ir::OpKind::kMul, {b.add1(ir::OpKind::kMul, {z, z}), counted});
  const ir::ValueId mean = b.add1(ir::OpKind::kDiv, {b.sum(squares, {0}, false), b.sum(counted, {0}, false)});
  return b.add1(ir::OpKind::kMul, {mean, b.scalar(choice.z_loss, type)});
}

Status attach_loss(ir::Graph& graph, const strategy::LossChoice& choice, diag::Diagnostics& diags) {
  const ir::Graph::Output* output = find_output(graph, choice.logits);
  if (output == nullptr) return unknown_output(graph, choice.logits, choice.span, diags);
  const ir::ValueId prediction = output->value;
  const ir::TensorType type = graph.type(prediction);
  const ir::ProvId prov = graph.provenance().directive({"loss", diags.place(choice.span)});
  ir::GraphBuilder b(graph, graph.intern_scope(""), prov);
  if (choice.kind == strategy::LossChoice::Kind::kMse) {
    const ir::ValueId target = input_or_new(graph, choice.labels, type);
    graph.loss = b.add1(ir::OpKind::kMseLoss, {prediction, target}, ir::ReductionAttrs{});
  } else {
    if (type.shape.size() < 2)
      return diags.error("P0237", choice.span)
             << "'" << choice.logits << "' is " << ir::to_string(type) << "; logits need an axis of classes";
    std::vector<int64_t> rows(type.shape.begin(), type.shape.end() - 1);
    const ir::ValueId labels = input_or_new(graph, choice.labels, {DType::kI64, rows});
    ir::CrossEntropyLossAttrs attrs;
    attrs.ignore_index = choice.ignore_index;
    attrs.label_smoothing = choice.label_smoothing;
    const int64_t classes = type.shape.back(), count = type.elements() / std::max<int64_t>(classes, 1);
    const ir::ValueId row = b.reshape(prediction, {count, classes}), label = b.reshape(labels, {count});
    graph.loss = b.add1(ir::OpKind::kCrossEntropyLoss, {row, label}, attrs);
    if (choice.z_loss > 0) {
      const ir::ValueId z = z_loss(b, row, label, choice);
      graph.loss = b.add1(ir::OpKind::kAdd, {b.cast(graph.loss, b.type(z).dtype), z});
    }
  }
  if (!b.status().ok()) return diags.error("P0237", choice.span) << b.status().error().message;
  return Status();
}

// Sets graph.loss; may append a loss operator and an input for labels. Error P0237.
Status choose_loss(ir::Graph& graph, const strategy::LossChoice& choice, diag::Diagnostics& diags) {
  using Kind = strategy::LossChoice::Kind;
  switch (choice.kind) {
    case Kind::kCrossEntropy:
    case Kind::kMse: return attach_loss(graph, choice, diags);
    case Kind::kOutput: {
      const ir::Graph::Output* output = find_output(graph, choice.output);
      if (output == nullptr) return unknown_output(graph, choice.output, choice.span, diags);
      const ir::TensorType& type = graph.type(output->value);
      if (type.elements() != 1 || !is_floating(type.dtype))
        return diags.error("P0237", choice.span)
               << "output '" << choice.output << "' is " << ir::to_string(type) << ", not a scalar";
      graph.loss = output->value;
      return Status();
    }
    case Kind::kDefault: break;
  }
  std::vector<ir::Graph::Output> scalars;
  for (const ir::Graph::Output& output : graph.outputs)
    if (graph.type(output.value).elements() == 1 && is_floating(graph.type(output.value).dtype))
      scalars.push_back(output);
  if (scalars.size() == 1) {
    graph.loss = scalars[0].value;
    return Status();
  }
  auto error = diags.error("P0237", choice.span);
  error << (scalars.empty() ? "no output of the model is a scalar loss" : "several outputs of the model are scalars");
  error.note("its outputs: " + joined(output_names(graph)));
  error.help("set model.loss to an output, or to {cross_entropy: {logits: NAME, labels: NAME}}");
  return error;
}

bool cuts_weights(const strategy::Directive& directive) {
  return directive.spec->name == "shard" && strategy::arg_or_default<std::string>(directive, "dim") != "expert";
}

// Whether the groups of a `shard` are those of several regions, each of which takes some.
bool lists_groups_to_take(const strategy::Directive& directive) {
  return cuts_weights(directive) ||
         (directive.spec->name == "shard" && strategy::find_arg<strategy::RankGroups>(directive, "over") != nullptr);
}

// [rank] the first rank of those that share its samples, itself where none do.
std::map<int32_t, int32_t> sharing_samples(const strategy::Strategy& strategy) {
  std::map<int32_t, int32_t> first;
  for (const strategy::Directive& directive : strategy.directives) {
    if (!cuts_weights(directive)) continue;
    for (const strategy::Devices& group : directives::groups_named(directive))
      for (const int32_t rank : group.ranks) first.emplace(rank, group.ranks.front());
  }
  return first;
}

// The most replicas that a list of the strategy names: the pieces of a microbatch can be no smaller. Groups that
// several regions take are a list where nothing else names their devices.
int64_t most_replicas(const strategy::Strategy& strategy) {
  const std::map<int32_t, int32_t> first = sharing_samples(strategy);
  int64_t most = 1;
  std::set<int32_t> named;
  const auto count = [&](const std::vector<strategy::Devices>& groups) {
    std::set<int32_t> replicas;
    for (const strategy::Devices& group : groups)
      for (const int32_t rank : group.ranks) {
        named.insert(rank);
        const auto shares = first.find(rank);
        replicas.insert(shares == first.end() ? rank : shares->second);
      }
    most = std::max(most, static_cast<int64_t>(replicas.size()));
  };
  for (const strategy::Directive& directive : strategy.directives) {
    if (directive.spec->name == "shard" && !lists_groups_to_take(directive)) count(directives::groups_named(directive));
    for (const strategy::ArgValue& arg : directive.args)
      if (const auto* devices = std::get_if<strategy::Devices>(&arg)) count({*devices});
  }
  if (strategy.schedule)
    for (const strategy::Devices& devices : strategy.schedule->ranks) count({devices});
  for (const strategy::Directive& directive : strategy.directives) {
    if (!lists_groups_to_take(directive)) continue;
    const std::vector<strategy::Devices> groups = directives::groups_named(directive);
    const auto is_named = [&](int32_t rank) { return named.count(rank) > 0; };
    if (!std::all_of(groups.begin(), groups.end(), [&](const strategy::Devices& group) {
          return std::all_of(group.ranks.begin(), group.ranks.end(), is_named);
        }))
      count(groups);
  }
  return most;
}

Status does_not_divide(const ir::Step& step, int64_t most, const diag::Span& span, diag::Diagnostics& diags) {
  const int64_t pieces = step.num_microbatches * most;
  auto error = diags.error("P0223", span);
  error << "a batch of " << step.batch << " does not divide into " << step.num_microbatches
        << (step.num_microbatches == 1 ? " microbatch" : " microbatches");
  if (most > 1) error << " on " << most << " replicas";
  std::string good;
  for (int64_t m = 1; m <= 64 && m * most <= step.batch; ++m)
    if (step.batch % (m * most) == 0) good += (good.empty() ? "" : ", ") + std::to_string(m);
  const int64_t below = step.batch / pieces * pieces;
  if (good.empty())
    error.note("possible batch sizes: " + (below > 0 ? std::to_string(below) + ", " : std::string()) +
               std::to_string(below + pieces));
  else error.note("possible numbers of microbatches: " + good);
  return error;
}

// A module read from text has a model file only where the text names one.
Status need_model(const Compilation& c) {
  return c.model != nullptr ? Status() : Status::failure("P0101", "there is no model file to bind");
}

// Whether a gradient of the loss reaches a parameter.
bool trains_anything(const ir::Graph& graph) {
  std::vector<bool> trained(graph.num_values());
  for (const ir::Parameter& p : graph.parameters()) trained[p.value.index] = p.trainable;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    if (autodiff::derivative_of(op.kind) == autodiff::Derivative::kZero) continue;
    const bool any = std::any_of(op.operands.begin(), op.operands.end(),
                                 [&](ir::ValueId v) { return v.valid() && trained[v.index]; });
    for (ir::ValueId result : op.results) trained[result.index] = any;
  }
  return trained[graph.loss.index];
}

// P0421 where the loss trains nothing, before it is asked how it is cut. One that is a parameter itself is given an
// operator.
Status make_loss(ir::Graph& graph, const strategy::LossChoice& choice, diag::Diagnostics& diags) {
  const ir::Value& value = graph.value(graph.loss);
  if (!trains_anything(graph))
    return diags.error("P0421", choice.span)
           << "the loss '" << value.name << "' does not depend on any trained parameter";
  if (value.kind == ir::ValueKind::kOpResult) return Status();
  ir::GraphBuilder b(graph, graph.intern_scope(""), graph.provenance().directive({"loss", diags.place(choice.span)}));
  graph.loss = b.add1(ir::OpKind::kMul, {graph.loss, b.scalar(1, value.type.dtype)});
  return b.status().ok() ? Status() : Status(b.status().error());
}

// Whether the model can be bound to `local` samples.
Status check_local_batch(const Compilation& c, int64_t local, int64_t pieces, diag::Diagnostics& diags) {
  PIPER_RETURN_IF_ERROR(need_model(c));
  const diag::Span& span = c.strategy.model.batch_span;
  if (c.model->fixed_batch() > 0 && local != c.model->fixed_batch()) {
    auto error = diags.error("P0223", span);
    error << "the model's batch is fixed at " << c.model->fixed_batch() << " samples, but each replica would get "
          << local << " per microbatch";
    error.help("export with a symbolic batch (tools/piper_export.py), or choose batch = " +
               std::to_string(pieces * c.model->fixed_batch()));
    return error;
  }
  return Status();
}

// Slots of programs are called after values, and after sums and numbers of the step, which a value of the model may not
// be taken for.
void rename_reserved(ir::Graph& graph) {
  static const std::set<std::string> kReserved = {"loss",  "dropped",    "seed_step", "sample_offset",
                                                  "place", "loss_scale", "saved"};
  for (size_t v = 0; v < graph.num_values(); ++v) {
    ir::Value& value = graph.value(ir::ValueId(v));
    if (kReserved.contains(value.name)) value.name += ".of_model";
  }
}

// Where the strategy says so, by the input that has the numbers of documents.
Status keep_documents_apart(const strategy::ModelConfig& model, ir::Graph& graph, int64_t local_batch,
                            diag::Diagnostics& diags) {
  if (!model.masks_documents) return Status();
  const auto input = std::find_if(model.inputs.begin(), model.inputs.end(),
                                  [](const auto& entry) { return entry.second.feed == plan::Feed::kDocuments; });
  return frontend::mask_documents(graph, input->first, local_batch, model.documents_span, diags);
}

// What the strategy adds to the model.
Status finish(const strategy::ModelConfig& model, int64_t samples, ir::Graph& graph, diag::Diagnostics& diags) {
  PIPER_RETURN_IF_ERROR(keep_documents_apart(model, graph, samples, diags));
  PIPER_RETURN_IF_ERROR(choose_loss(graph, model.loss, diags));
  PIPER_RETURN_IF_ERROR(make_loss(graph, model.loss, diags));
  rename_reserved(graph);
  return Status();
}

Result<ir::ModelVariant> bind_at(const Compilation& c, int64_t local_batch, diag::Diagnostics& diags) {
  PIPER_RETURN_IF_ERROR(need_model(c));
  frontend::BindRequest request;
  request.local_batch = local_batch;
  request.step_batch = c.module.step.batch;
  request.cut = c.module.step.cut && local_batch == request.step_batch;
  request.per_piece = [&](const std::string& module) {
    return std::any_of(c.strategy.per_microbatch.begin(), c.strategy.per_microbatch.end(),
                       [&](const std::string& glob) { return glob_covers(glob, module); });
  };
  request.dims = c.strategy.model.dims;
  request.freeze = c.strategy.model.freeze;
  request.freeze_spans = c.strategy.model.freeze_spans;
  request.train_spans = c.strategy.model.train_spans;
  request.train = c.strategy.model.train;
  ir::ModelVariant variant;
  variant.local_batch = local_batch;
  PIPER_ASSIGN(frontend::BoundGraph bound, c.model->bind(request, diags));
  variant.chunked.graph = std::move(bound.graph);
  PIPER_RETURN_IF_ERROR(finish(c.strategy.model, local_batch, variant.chunked.graph, diags));
  if (!bound.like || !c.module.step.cut) return variant;
  diag::Diagnostics unheard = diags;  // it is the same model
  variant.like = std::move(bound.like->graph);
  variant.like_batch = bound.like->samples;
  PIPER_RETURN_IF_ERROR(finish(c.strategy.model, variant.like_batch, *variant.like, unheard));
  return variant;
}

Status cut_variant(const Compilation& c, ir::ModelVariant& variant, diag::Diagnostics& diags) {
  const regions::ModelTags tags = c.model == nullptr ? regions::ModelTags() : c.model->node_tags();
  PIPER_ASSIGN(variant.chunked, regions::cut_chunks(std::move(variant.chunked.graph), c.strategy, diags, tags));
  if (!variant.like) return Status();
  diag::Diagnostics unheard = diags;  // it is the same model
  PIPER_ASSIGN(ir::ChunkedGraph like, regions::cut_chunks(std::move(*variant.like), c.strategy, unheard, tags));
  variant.like = std::move(like.graph);
  return Status();
}

void take_precision(const strategy::PrecisionConfig& said, Compilation& c, const diag::Diagnostics& diags) {
  ir::Precision& precision = c.module.precision;
  precision.compute = said.compute;
  precision.master = said.master;
  precision.reduce = said.reduce;
  if (said.loss_scale) {
    precision.scaling = said.dynamic ? ir::LossScale::kDynamic : ir::LossScale::kFixed;
    precision.loss_scale = *said.loss_scale;
  }
  precision.keep = said.keep;
  precision.prov = c.module.provenance.directive({"precision", diags.place(said.span)});
}

// P0247 at a key of `model.inputs` that names no input of the model.
Status check_input_names(const strategy::ModelConfig& config, const ir::Graph& graph, diag::Diagnostics& diags) {
  std::vector<std::string> names;
  for (const ir::Input& input : graph.inputs()) names.push_back(input.name);
  for (const auto& [name, role] : config.inputs) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    auto error = diags.error("P0247", role.span);
    error << "the model has no input '" << name << "'";
    error.note("its inputs: " + joined(names));
    const std::string near = diag::nearest(name, names);
    if (!near.empty()) error.help("did you mean '" + near + "'?");
    return error;
  }
  return Status();
}

// P0341 where a step of the model could be compiled and not run: parameters are updated in types that f64 does not fit.
// A loss in f64 is taken: it is rounded where losses of pieces are added up.
Status check_f64(const ir::Graph& graph, diag::Diagnostics& diags) {
  for (const ir::Parameter& parameter : graph.parameters()) {
    if (!parameter.trainable || graph.type(parameter.value).dtype != DType::kF64) continue;
    auto error = diags.error("P0341", {});
    error << "parameter '" << parameter.names[0] << "' is f64, which piper does not train";
    error.help("call model.float() before exporting the model");
    return error;
  }
  if (graph.type(graph.loss).dtype == DType::kF64)
    diags.remark("the loss is f64: it is rounded to f32, in which losses of a step are added up; its gradient is not");
  return Status();
}

// Warns where a file does not say which of its numbers are trained: what they are taken for.
void tell_unsaid(const Compilation& c, const ir::Graph& graph, diag::Diagnostics& diags) {
  const std::vector<std::string> unsaid = c.model->unsaid_numbers();
  if (unsaid.empty()) return;
  std::set<std::string> trained, statistics;
  for (const ir::Parameter& p : graph.parameters())
    if (p.trainable) trained.insert(p.names.begin(), p.names.end());
  for (const ir::Parameter& b : graph.buffers()) statistics.insert(b.names.begin(), b.names.end());
  std::vector<std::string> parameters, constants;
  for (const std::string& name : unsaid)
    if (statistics.count(name) == 0) (trained.count(name) != 0 ? parameters : constants).push_back(name);
  constexpr size_t kShown = 20;
  const auto shown = [](const std::vector<std::string>& names) {
    if (names.empty()) return std::string("none");
    if (names.size() <= kShown) return joined(names);
    return joined({names.begin(), names.begin() + kShown}) + " and " + std::to_string(names.size() - kShown) + " more";
  };
  diags.warning("P0317").help("model: {train: [NAME]} trains a constant, {freeze: [NAME]} keeps a parameter as it is")
      << c.model->base_name() << " does not say which of its numbers are trained: taken as parameters "
      << shown(parameters) << ", as constants " << shown(constants);
}

// Globs of modules with operators: those of `keep`, and those of `per_microbatch`, where "*" is whatever there is.
Status check_module_globs(const Compilation& c, const ir::Graph& graph, diag::Diagnostics& diags) {
  std::set<std::string> modules;
  for (size_t i = 0; i < graph.num_ops(); ++i) modules.insert(graph.scope(graph.op(ir::OpId(i)).scope));
  const auto check = [&](const char* code, const std::vector<std::string>& globs,
                         const std::vector<strategy::Span>& spans) {
    std::vector<diag::GlobUse> uses;
    for (size_t k = 0; k < globs.size(); ++k) {
      const bool matches =
          globs[k] == "*" || std::any_of(modules.begin(), modules.end(),
                                         [&](const std::string& module) { return glob_covers(globs[k], module); });
      uses.push_back({globs[k], k < spans.size() ? spans[k] : strategy::Span(), matches});
    }
    return diag::tell_unmatched_globs(uses, code, diags, [&](diag::InFlight& message, const std::string& glob) {
      constexpr size_t kShown = 12;
      std::vector<std::string> some;
      for (const std::string& module : modules)
        if (!module.empty() && some.size() < kShown) some.push_back(module);
      message << "no module matches '" << glob << "'";
      message.note("modules with operators: " + joined(some) + (modules.size() > kShown ? ", ..." : ""));
    });
  };
  if (c.strategy.precision)
    PIPER_RETURN_IF_ERROR(check("P0243", c.strategy.precision->keep, c.strategy.precision->keep_spans));
  return check("P0210", c.strategy.per_microbatch, c.strategy.per_microbatch_spans);
}

// Forward may do something else with as few samples as a piece has, where the piece is not computed like a larger one.
void warn_of_few_samples(const Compilation& c, int64_t local, bool as_it_is, diag::Diagnostics& diags) {
  const int64_t least = c.model->declared_min_batch();
  if (!as_it_is && c.strategy.per_microbatch.empty()) return;
  if (as_it_is && local < least && least > 2) {
    diags.warning("P0223", c.strategy.model.batch_span)
        << "each replica gets " << local << " sample(s) per microbatch, fewer than the exporter's declared minimum of "
        << least << "; the model may have been specialised";
  } else if (local == 1 && c.model->fixed_batch() < 0 && !c.model->does_the_same_with_one_sample()) {
    auto warning = diags.warning("P0223", c.strategy.model.batch_span);
    warning << "each replica gets one sample per microbatch, and " << c.model->base_name()
            << " was traced with several; the model may have been specialised, as where forward asks for the number of "
            << "samples";
    warning.help("tools/piper_export.py traces with one sample, too, and says in the file where that is the same");
  }
}

}  // namespace

Status choose_step(Compilation& c, diag::Diagnostics& diags) {
  ir::Step& step = c.module.step;
  const strategy::Strategy& strategy = c.strategy;
  if (strategy.model.batch) {
    step.batch = *strategy.model.batch;
  } else if (c.model != nullptr && c.model->fixed_batch() > 0) {
    step.batch = c.model->fixed_batch();
  } else {
    auto error = diags.error("P0228", strategy.model.span);
    error << "the number of samples of a step is not given";
    error.help("set model.batch, in the file or with --set model.batch=64");
    return error;
  }
  for (const strategy::Directive& directive : strategy.directives)
    if (directive.spec == &directives::split_spec())
      PIPER_RETURN_IF_ERROR(directives::resolve_split(directive, step, diags));
  if (strategy.schedule) PIPER_RETURN_IF_ERROR(number_microbatches(*strategy.schedule, step, diags));
  step.per_microbatch = strategy.per_microbatch;
  ir::Training& training = c.module.training;
  training.clip_grad_norm = strategy.clip_grad_norm;
  if (training.clips())
    training.clip_prov = c.module.provenance.directive({"clip_grad_norm", diags.place(strategy.clip_span)});
  if (strategy.precision) take_precision(*strategy.precision, c, diags);
  c.module.head = {strategy.head.off, strategy.head.blocks};
  if (strategy.optimizer)
    training.update_prov = c.module.provenance.directive({"optimizer", diags.place(strategy.optimizer->span)});
  return Status();
}

// One variant is enough to see regions and tags; it is that of the largest group that the strategy names.
Status bind_model(Compilation& c, diag::Diagnostics& diags) {
  ir::Step& step = c.module.step;
  const int64_t most = most_replicas(c.strategy);
  const int64_t pieces = step.num_microbatches * most;
  if (step.batch % pieces != 0) return does_not_divide(step, most, c.strategy.model.batch_span, diags);
  const int64_t local = step.batch / pieces;
  PIPER_RETURN_IF_ERROR(check_local_batch(c, local, pieces, diags));
  step.cut = local < step.batch;
  if (const int64_t least = c.model->declared_min_batch(); step.batch < least && least > 2) {
    auto error = diags.error("P0223", c.strategy.model.batch_span);
    error << "the model was exported for batches of at least " << least << " samples, and a step has " << step.batch;
    error.help("choose a batch of " + std::to_string(least) +
               " or more; forward's own indices or conditions ask for it");
    return error;
  }
  PIPER_ASSIGN(ir::ModelVariant variant, bind_at(c, local, diags));
  warn_of_few_samples(c, local, !variant.like, diags);
  for (const auto& [name, extent] : c.strategy.model.dims)
    if (extent == 1)
      diags.warning("P0302", c.strategy.model.span)
          << "model.dims: " << name << " = 1, which a tracer takes no extent for; " << c.model->base_name()
          << " may have been specialised for more";
  PIPER_RETURN_IF_ERROR(check_input_names(c.strategy.model, variant.chunked.graph, diags));
  PIPER_RETURN_IF_ERROR(check_f64(variant.chunked.graph, diags));
  if (const ir::Value& loss = variant.chunked.graph.value(variant.chunked.graph.loss);
      loss.kind == ir::ValueKind::kConstant)
    return diags.error("P0421") << "the loss '" << loss.name << "' does not depend on any trained parameter";
  PIPER_RETURN_IF_ERROR(check_module_globs(c, variant.chunked.graph, diags));
  tell_unsaid(c, variant.chunked.graph, diags);
  c.sample_flops = analysis::model_flops(variant.chunked.graph) / static_cast<double>(local);
  c.module.variants.push_back(std::move(variant));
  return Status();
}

Status cut_regions(Compilation& c, diag::Diagnostics& diags) { return cut_variant(c, c.module.variants[0], diags); }

Status bind_variants(Compilation& c, diag::Diagnostics& diags) {
  ir::Module& module = c.module;
  std::set<int64_t, std::greater<>> locals;
  for (const ir::ChunkProperties& row : module.distribution.chunks)
    for (ir::GroupId group : row.groups) {
      const int64_t replicas = module.distribution.replicas(group);
      if (module.step.batch % (module.step.num_microbatches * replicas) != 0)
        return does_not_divide(module.step, replicas, c.strategy.model.batch_span, diags);
      locals.insert(module.step.local_batch(replicas));
    }
  ir::ModelVariant first = std::move(module.variants[0]);
  module.variants.clear();
  for (int64_t local : locals) {
    if (local == first.local_batch) continue;
    PIPER_ASSIGN(ir::ModelVariant variant, bind_at(c, local, diags));
    PIPER_RETURN_IF_ERROR(cut_variant(c, variant, diags));
    if (variant.chunked.chunks.size() != first.chunked.chunks.size())
      return regions::other_structure(variant, first, diags);
    module.variants.push_back(std::move(variant));
  }
  if (locals.count(first.local_batch) != 0) module.variants.push_back(std::move(first));
  std::sort(module.variants.begin(), module.variants.end(),
            [](const ir::ModelVariant& a, const ir::ModelVariant& b) { return a.local_batch > b.local_batch; });
  return Status();
}

}  // namespace piper::driver
