#include "compiler/driver/prepare_model.h"

#include <algorithm>
#include <optional>

#include "compiler/autodiff/autodiff.h"
#include "compiler/directives/split.h"
#include "compiler/passes/copy_weight_ops.h"
#include "compiler/passes/cut_chunks.h"
#include "compiler/passes/cut_segments.h"
#include "compiler/passes/leave_exchanges.h"
#include "compiler/passes/normalise_losses.h"
#include "compiler/passes/recompute.h"
#include "compiler/passes/split_backward.h"
#include "compiler/passes/spread_losses.h"
#include "compiler/passes/track_batch.h"

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
    const int64_t classes = type.shape.back(), count = type.elements() / std::max<int64_t>(classes, 1);
    graph.loss = b.add1(ir::OpKind::kCrossEntropyLoss,
                        {b.reshape(prediction, {count, classes}), b.reshape(labels, {count})}, attrs);
  }
  if (!b.status().ok()) return diags.error("P0237", choice.span) << b.status().error().message;
  return Status();
}

// Where the strategy cuts the batch: the number of microbatches, else the first of its replicas.
diag::Span cut_by(const strategy::Strategy& strategy) {
  const auto named = [](const strategy::Directive& directive, std::string_view name) {
    return directive.spec->name == name;
  };
  for (const strategy::Directive& directive : strategy.directives)
    if (named(directive, "split"))
      if (const auto args = directives::read_split(directive); args.ok() && args->num_microbatches > 1)
        return directive.span;
  if (strategy.schedule && strategy.schedule->microbatches.value_or(1) > 1) return strategy.schedule->span;
  for (const strategy::Directive& directive : strategy.directives)
    if (named(directive, "replicate") || named(directive, "shard")) return directive.span;
  return {};
}

}  // namespace

Status choose_loss(ir::Graph& graph, const strategy::LossChoice& choice, int64_t, diag::Diagnostics& diags) {
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

bool names_parameter(const std::vector<std::string>& globs, const std::string& parameter) {
  for (const std::string& glob : globs) {
    if (passes::glob_matches(glob, parameter)) return true;
    for (size_t dot = parameter.find('.'); dot != std::string::npos; dot = parameter.find('.', dot + 1))
      if (passes::glob_matches(glob, parameter.substr(0, dot))) return true;
  }
  return false;
}

std::vector<std::string> token_feeds(const ir::Graph& graph, const strategy::ModelConfig& config) {
  std::vector<std::string> feeds;
  const auto uses = graph.uses();
  for (const ir::Input& input : graph.inputs()) {
    auto said = config.inputs.find(input.name);
    std::string feed;
    if (said != config.inputs.end()) {
      feed = said->second;
    } else if (input.name == "idx" || input.name == "input_ids") {
      feed = "tokens";
    } else if (input.name == "targets") {
      feed = "next_tokens";
    } else if (input.name == "labels") {
      const bool shifts = std::any_of(uses[input.value.index].begin(), uses[input.value.index].end(), [&](ir::OpId op) {
        const ir::OpKind kind = graph.op(op).kind;
        return kind == ir::OpKind::kPad || kind == ir::OpKind::kSlice;
      });
      feed = shifts ? "tokens" : "next_tokens";
    }
    feeds.push_back(std::move(feed));
  }
  return feeds;
}

Result<ir::ChunkedGraph> bind_and_cut(const frontend::ModelFile& model, const strategy::Strategy& strategy,
                                      int64_t batch, int64_t local_batch, diag::Diagnostics& diags) {
  frontend::BindRequest request;
  request.local_batch = local_batch;
  request.step_batch = batch;
  request.per_piece = [&](const std::string& module) {
    return std::any_of(strategy.per_microbatch.begin(), strategy.per_microbatch.end(),
                       [&](const std::string& glob) { return passes::glob_covers(glob, module); });
  };
  request.dims = strategy.model.dims;
  request.freeze = strategy.model.freeze;
  PIPER_ASSIGN(ir::Graph graph, model.bind(request, diags));
  PIPER_RETURN_IF_ERROR(choose_loss(graph, strategy.model.loss, local_batch, diags));
  return passes::cut_chunks(std::move(graph), strategy.annotations, diags, model.node_tags());
}

Status finish_forward(ir::ChunkedGraph& chunked, const strategy::Strategy& strategy, int64_t batch, int64_t local_batch,
                      const ForwardShape& shape, diag::Diagnostics& diags) {
  ir::Graph& graph = chunked.graph;
  passes::copy_weight_ops(graph, shape.devices);
  const passes::StepShape step{batch, batch / local_batch, shape.cut, cut_by(strategy)};
  const passes::BatchMap map = passes::track_batch(graph, local_batch);
  PIPER_RETURN_IF_ERROR(passes::lay_out_dropout(graph, map, local_batch, step.pieces, diags));
  PIPER_RETURN_IF_ERROR(passes::normalise_losses(graph, map, step, strategy.per_microbatch, diags));
  std::vector<int64_t> segment_bytes = shape.segment_bytes;
  if (!shape.shards.empty()) {
    PIPER_ASSIGN(const std::vector<ir::ChunkId> cut_from, passes::partition_experts(chunked, shape.shards, diags));
    segment_bytes.clear();
    for (size_t c = 0; c < cut_from.size(); ++c) {
      segment_bytes.push_back(shape.segment_bytes[cut_from[c].index]);
      chunked.chunks[c].region = static_cast<int32_t>(cut_from[c].index);
    }
  }
  passes::spread_losses(chunked.graph);
  passes::cut_segments(chunked, segment_bytes);
  return Status();
}

Result<ModelVariant> differentiate_and_lower(ir::ChunkedGraph chunked, int64_t local_batch, const BackwardShape& shape,
                                             const ModelVariant* reference, diag::Diagnostics& diags) {
  ModelVariant variant;
  variant.local_batch = local_batch;
  variant.chunked = std::move(chunked);
  ir::Graph& graph = variant.chunked.graph;
  auto differentiated = autodiff::differentiate(graph, diags);
  if (!differentiated.ok()) return differentiated.take_status();
  passes::leave_exchanges(variant.chunked);
  passes::recompute(graph, shape.recompute);
  std::optional<ir::Graph> repeating;
  if (std::find(shape.repeat_some.begin(), shape.repeat_some.end(), true) != shape.repeat_some.end()) {
    repeating = graph;
    passes::recompute(*repeating, shape.repeat_some);
    passes::split_backward(*repeating, differentiated.value(), shape.split);
  }
  passes::split_backward(graph, differentiated.value(), shape.split);
  const emit::LoweredGraph* like = reference != nullptr ? &reference->lowered : nullptr;
  variant.lowered = emit::lower_programs(graph, variant.chunked.chunks.size(), like);
  if (repeating)
    emit::add_repeating(variant.lowered, emit::lower_programs(*repeating, variant.chunked.chunks.size(), like),
                        shape.repeat_some);
  return variant;
}

}  // namespace piper::driver
