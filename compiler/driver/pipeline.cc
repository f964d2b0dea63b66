#include "compiler/driver/pipeline.h"

#include "compiler/driver/bind_model.h"
#include "compiler/driver/check_boundaries.h"
#include "compiler/driver/choose_rules.h"
#include "compiler/driver/derive_evaluation.h"
#include "compiler/driver/emit_plans.h"
#include "compiler/driver/lay_out_training.h"
#include "compiler/driver/remarks.h"
#include "compiler/driver/resolve_directives.h"
#include "compiler/emit/lower_programs.h"
#include "compiler/passes/add_backward.h"
#include "compiler/passes/add_order_edges.h"
#include "compiler/passes/build_dag.h"
#include "compiler/passes/copy_weight_ops.h"
#include "compiler/passes/cut_heads.h"
#include "compiler/passes/cut_segments.h"
#include "compiler/passes/delay_gathers.h"
#include "compiler/passes/form_buckets.h"
#include "compiler/passes/fuse_chunks.h"
#include "compiler/passes/insert_casts.h"
#include "compiler/passes/insert_gathers.h"
#include "compiler/passes/insert_gradient_work.h"
#include "compiler/passes/insert_transfers.h"
#include "compiler/passes/lay_out_dropout.h"
#include "compiler/passes/lay_out_state.h"
#include "compiler/passes/leave_exchanges.h"
#include "compiler/passes/normalise_losses.h"
#include "compiler/passes/order_nodes.h"
#include "compiler/passes/part_sinks.h"
#include "compiler/passes/partition_experts.h"
#include "compiler/passes/partition_tensors.h"
#include "compiler/passes/recompute.h"
#include "compiler/passes/split_backward.h"
#include "compiler/passes/spread_losses.h"

namespace piper::driver {
namespace {

using diag::Diagnostics;

// A pass that knows the module alone.
template <Status (*kPass)(ir::Module&, Diagnostics&)>
Status on_module(Compilation& c, Diagnostics& diags) {
  return kPass(c.module, diags);
}
template <void (*kPass)(ir::Module&)>
Status on_module(Compilation& c, Diagnostics&) {
  kPass(c.module);
  return Status();
}

Status check_lowered(Compilation& c, Diagnostics& diags) {
  PIPER_RETURN_IF_ERROR(check_boundaries(c.module, diags));
  note_running_statistics(c.module, diags);
  note_counted_rows(c.module, c.target.device, diags);
  note_masks(c.module, diags);
  return Status();
}

Status cut_heads(Compilation& c, Diagnostics& diags) {
  passes::cut_heads(c.module);
  note_heads(c.module, diags);
  return Status();
}

Status form_buckets(Compilation& c, Diagnostics& diags) {
  passes::form_buckets(c.module);
  note_whole_parameters(c.module, diags);
  note_padding(c.module, diags);
  return Status();
}

Status lay_out_state(Compilation& c, Diagnostics& diags) {
  passes::lay_out_state(c.module);
  note_sums(c.module, diags);
  note_conversions(c.module, diags);
  return Status();
}

constexpr Pass kPipeline[] = {
    // ---------------------------------------------------------------- the model as a graph of regions
    {"choose_step", "bind", "the strategy", "batch, microbatches and clipping of a step are known",
     "everything else is about a piece of the step, and a piece is batch / (microbatches * devices) samples",
     &choose_step},
    {"bind_model", "bind", "the step", "one variant of the model: shapes static, a loss chosen, constants folded",
     "regions and tags are seen on a bound graph; one number of samples is enough to see them", &bind_model},
    {"cut_regions", "bind", "a bound graph", "every op is of a region, and regions have the tags that filters name",
     "directives are about regions, so there is nothing to resolve before", &cut_regions},
    // ---------------------------------------------------------------- the strategy as properties of regions
    {"resolve_directives", "place", "regions with tags",
     "every directive was read, once: each region has its devices, streams, reduction, recomputation; orders are slots",
     "all wrong directives are reported together, before anything is changed", &resolve_directives},
    {"bind_variants", "place", "devices of every region",
     "a variant of the model for each distinct number of samples a piece, all cut into the same regions",
     "group sizes are known only now; every pass from here on runs on all variants", &bind_variants},
    {"choose_rules", "place", "every variant as the model says it",
     "parameters that an optimizer of whole matrices updates are marked",
     "before passes that rewrite products and losses", &choose_rules},
    // ---------------------------------------------------------------- the forward, finished
    {"copy_weight_ops", "place", "regions on their devices",
     "values of parameters alone are computed where they are read, between groups of different sizes",
     "the sizes of groups decide what is copied; before anything asks which axis of a value is the batch",
     &on_module<&passes::copy_weight_ops>},
    {"lay_out_dropout", "place", "every op of the forward", "dropouts know which axis numbers the samples",
     "the masks are keyed by samples of the step, so it needs the number of pieces",
     &on_module<&passes::lay_out_dropout>},
    {"normalise_losses", "place", "every op of the forward",
     "the step's loss is the sum of the pieces' losses, each mean written as sum x 1/count",
     "before autodiff, which takes the loss as it is; before partition_experts, which asks for sums",
     &on_module<&passes::normalise_losses>},
    {"partition_experts", "place", "losses are sums",
     "experts that a directive shards are parts; every all_to_all is a chunk of its own",
     "before autodiff: derivatives of an exchange are exchanges, so nothing has to be known of them there",
     &on_module<&passes::partition_experts>},
    {"partition_tensors", "place", "losses are sums; experts are those of a rank",
     "weights that a directive cuts are parts; conversions between parts and wholes are chunks of their own",
     "after partition_experts: shares of what experts make travel back before they are added up; before autodiff: the "
     "derivative of a conversion is a conversion",
     &on_module<&passes::partition_tensors>},
    {"spread_losses", "place", "losses are sums", "each term of the loss is added up in the chunk that makes it",
     "nothing after it moves terms between chunks; before autodiff, where each term's gradient is 1",
     &on_module<&passes::spread_losses>},
    {"insert_casts", "place", "losses, experts and exchanges as they will be",
     "values have the element types that `precision` wants; parameters read in another type have masters",
     "after the passes that look for forms of operators, which casts would hide; before cut_segments, which measures "
     "parameters",
     &on_module<&passes::insert_casts>},
    {"cut_heads", "place", "losses, and the types of what they read",
     "large logits that their cross entropy alone reads are made a block of rows at a time, with it",
     "after insert_casts, so that products and losses have the types that they have apart; before autodiff, which "
     "saves logits",
     &cut_heads},
    {"cut_segments", "place", "final regions", "no chunk first uses more bytes of parameters than a bucket holds",
     "before autodiff, since backward ops take the chunk of their forward op", &on_module<&passes::cut_segments>},
    {"fuse_chunks", "place", "segments", "neighbours that nothing distinguishes are one chunk; chunks are final",
     "after the passes that cut, so that it sees what is left over; before autodiff for the same reason as "
     "cut_segments",
     &on_module<&passes::fuse_chunks>},
    // ---------------------------------------------------------------- the backward, and programs
    {"add_backward", "differentiate", "final chunks", "the backward of every variant, op by op",
     "everything that changes the forward is done", &on_module<&passes::add_backward>},
    {"part_sinks", "differentiate", "a backward", "no operator of attention has a sink: its result is scaled for it",
     "derivatives are of attention with the sink; before recompute, which repeats what backwards read",
     &on_module<&passes::part_sinks>},
    {"leave_exchanges", "differentiate", "a backward", "chunks that are a conversion hold nothing else",
     "autodiff puts sums of gradients into the chunk of their value, which may be a conversion",
     &on_module<&passes::leave_exchanges>},
    {"recompute", "differentiate", "a backward",
     "backwards of recomputed chunks repeat their forward and its exchanges, and gather sequences again",
     "what is repeated is what the backward reads; before split_backward, so that it is of the input part",
     &on_module<&passes::recompute>},
    {"split_backward", "differentiate", "complete backwards",
     "backwards of which orders name the halves are an input part and a weight part",
     "the last pass that decides in which program an op is", &on_module<&passes::split_backward>},
    {"lower_programs", "differentiate", "ops of final programs",
     "a program for each (chunk, phase), and what chunks hand to each other", "the DAG is about programs, not ops",
     &on_module<&emit::lower_programs>},
    {"check_boundaries", "differentiate", "programs of every variant",
     "variants hand on the same values, and groups that do so nest", "before the DAG, which takes it for granted",
     &check_lowered},
    // ---------------------------------------------------------------- the training DAG of the whole cluster
    {"build_dag", "build", "programs, distribution",
     "a node for every chunk, phase and microbatch, with its data edges",
     "the first pass of the DAG: the others add to it", &on_module<&passes::build_dag>},
    {"insert_transfers", "build", "computes and their edges", "data edges stay within a group or touch a message",
     "before gradient work and orders, which look at distances between computes",
     &on_module<&passes::insert_transfers>},
    {"form_buckets", "build", "programs, distribution",
     "accumulators of gradients, and the buckets in which they are reduced, updated and kept in parts",
     "before insert_gradient_work, which puts in one reduction for each; the DAG is left as it is", &form_buckets},
    {"insert_gradient_work", "build", "computes and messages, buckets",
     "a complete step: reductions, sums of tied parameters, clipping, updates",
     "after the last pass that adds a compute, since a reduction waits for all of them",
     &on_module<&passes::insert_gradient_work>},
    // ---------------------------------------------------------------- one order for all ranks
    {"add_order_edges", "order", "a complete step", "orders of the strategy are edges",
     "an order is about what the data do not order already, so these must all be there",
     &on_module<&passes::add_order_edges>},
    {"order_nodes", "order", "all edges", "one linear extension of the whole DAG, of which every rank takes its part",
     "after the last edge; what follows may place nodes in the order, but not change it",
     &on_module<&passes::order_nodes>},
    {"delay_gathers", "order", "the order", "sequences that a backward gathers again are gathered right before it",
     "the data allow them since the forward; which compute comes before a reader is a matter of the final order",
     &on_module<&passes::delay_gathers>},
    {"insert_gathers", "order", "the order", "sharded parameters are gathered before their readers",
     "how far ahead a gather is issued is a matter of the final order", &on_module<&passes::insert_gathers>},
    {"lay_out_state", "order", "the order, gathers",
     "who saves each tensor of the model, and before which node gradients start at zero",
     "which compute is the first is a matter of the final order", &lay_out_state},
    // ---------------------------------------------------------------- plans
    {"lay_out_training", "emit", "final parameters, which of them are trained",
     "each parameter has its group of the optimizer, each input its part of a token stream",
     "after the passes that make or cut parameters; before derive_evaluation, whose module has the same inputs",
     &lay_out_training},
    {"derive_evaluation", "emit", "a complete step", "where the strategy has `eval`, a second module of forwards alone",
     "parameters are where the step leaves them, and its programs are made of the finished forwards",
     &derive_evaluation},
    {"emit_plans", "emit", "ordered modules", "a plan for every rank, and one by which it evaluates",
     "the projection: nothing is decided here", &emit_plans},
};

}  // namespace

std::span<const Pass> pipeline() { return kPipeline; }

const Pass* find_pass(std::string_view name) {
  for (const Pass& pass : kPipeline)
    if (pass.name == name) return &pass;
  return nullptr;
}

}  // namespace piper::driver
