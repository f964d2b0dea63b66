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
    {"choose_step", "bind", "the strategy", "the batch, the number of microbatches and gradient clipping are known",
     "all later passes compute for a piece, the samples of one microbatch on one replica", &choose_step},
    {"bind_model", "bind", "the step", "one variant of the model, with static shapes, a loss, and folded constants",
     "tags are found on a bound graph. One number of samples is enough to find them", &bind_model},
    {"cut_regions", "bind", "a bound graph",
     "every operator belongs to a region, and regions have the tags that filters name",
     "directives select regions, so regions must exist before directives are resolved", &cut_regions},
    // ---------------------------------------------------------------- the strategy as properties of regions
    {"resolve_directives", "place", "regions with tags",
     "every directive was read once: each region has its devices, streams, reduction and recomputation; orders are "
     "slots",
     "all wrong directives are reported together, before the graph is changed", &resolve_directives},
    {"bind_variants", "place", "devices of every region",
     "one variant of the model for each distinct number of samples in a piece, all divided into the same regions",
     "the sizes of device groups are known only now. Every later pass runs on all variants", &bind_variants},
    {"choose_rules", "place", "every variant as the model says it",
     "parameters are marked if an optimizer updates them as whole matrices",
     "later passes rewrite the products and losses by which such parameters are found", &choose_rules},
    // ---------------------------------------------------------------- the forward, finished
    {"copy_weight_ops", "place", "regions on their devices",
     "a value that depends only on parameters is computed where it is read, if device groups of different sizes read "
     "it",
     "the sizes of groups decide what is copied. It runs before any pass that asks which axis of a value is the batch",
     &on_module<&passes::copy_weight_ops>},
    {"lay_out_dropout", "place", "every operator of the forward pass",
     "each dropout knows which axis numbers the samples",
     "masks depend on the sample's number in the step, so the number of pieces must be known",
     &on_module<&passes::lay_out_dropout>},
    {"normalise_losses", "place", "every operator of the forward pass",
     "the loss of the step is the sum of the losses of the pieces; each mean is written as sum x 1/count",
     "autodiff takes the loss as it is, and partition_experts needs sums", &on_module<&passes::normalise_losses>},
    {"partition_experts", "place", "losses are sums",
     "each device has its part of the experts that a directive shards; every all_to_all is a chunk of its own",
     "before autodiff: the derivative of an exchange is an exchange, so autodiff need not know about experts",
     &on_module<&passes::partition_experts>},
    {"partition_tensors", "place", "losses are sums; each rank has its experts",
     "weights that a directive divides are parts; each conversion between part and whole is a chunk of its own",
     "after partition_experts, because partial sums of experts travel back before they are added. Before autodiff, "
     "because the derivative of a conversion is a conversion",
     &on_module<&passes::partition_tensors>},
    {"spread_losses", "place", "losses are sums", "each term of the loss is added up in the chunk that makes it",
     "no later pass moves terms between chunks. Before autodiff, which gives each term the gradient 1",
     &on_module<&passes::spread_losses>},
    {"insert_casts", "place", "losses, experts and exchanges are final",
     "values have the element types that `precision` asks for; parameters that are read in another type have masters",
     "after the passes that look for patterns of operators, because casts would hide these. Before cut_segments, "
     "which measures parameters",
     &on_module<&passes::insert_casts>},
    {"cut_heads", "place", "losses and the types of their operands",
     "if only a cross entropy reads large logits, both are computed in blocks of rows",
     "after insert_casts, so that products and losses have the same types as without blocks. Before autodiff, which "
     "saves logits",
     &cut_heads},
    {"cut_segments", "place", "final regions",
     "no chunk is the first reader of more bytes of parameters than a bucket holds",
     "before autodiff, because a backward operator belongs to the chunk of its forward operator",
     &on_module<&passes::cut_segments>},
    {"fuse_chunks", "place", "segments", "neighbours that nothing distinguishes are one chunk; chunks are final",
     "after the passes that divide regions, so that it sees what they leave. Before autodiff, for the same reason as "
     "cut_segments",
     &on_module<&passes::fuse_chunks>},
    // ---------------------------------------------------------------- the backward, and programs
    {"add_backward", "differentiate", "final chunks", "the backward pass of every variant, operator by operator",
     "every pass that changes the forward pass has run", &on_module<&passes::add_backward>},
    {"part_sinks", "differentiate", "a backward pass", "no attention has a sink: its result is scaled instead",
     "autodiff differentiates attention with its sink. Before recompute, which copies what backward passes read",
     &on_module<&passes::part_sinks>},
    {"leave_exchanges", "differentiate", "a backward pass", "chunks with a conversion have no other operators",
     "autodiff puts the sum of a value's gradients into the chunk of the value, which may be a conversion",
     &on_module<&passes::leave_exchanges>},
    {"recompute", "differentiate", "a backward pass",
     "backward passes of recomputed chunks contain their forward operators and exchanges, and gather sequences again",
     "the backward pass decides what is recomputed. Before split_backward, so that recomputation belongs to the input "
     "part",
     &on_module<&passes::recompute>},
    {"split_backward", "differentiate", "complete backward passes",
     "if an order names the two halves of a backward pass, it is an input part and a weight part",
     "the last pass that decides to which program an operator belongs", &on_module<&passes::split_backward>},
    {"lower_programs", "differentiate", "operators of final programs",
     "a program for each (chunk, phase), and the values that chunks pass to each other",
     "the DAG has programs as nodes, not operators", &on_module<&emit::lower_programs>},
    {"check_boundaries", "differentiate", "programs of every variant",
     "all variants pass on the same values, between groups whose sizes divide each other", "the DAG relies on both",
     &check_lowered},
    // ---------------------------------------------------------------- the training DAG of the whole cluster
    {"build_dag", "build", "programs, distribution",
     "a node for every chunk, phase and microbatch, with its data edges",
     "all later passes of this phase add to the DAG", &on_module<&passes::build_dag>},
    {"insert_transfers", "build", "computations and their edges",
     "every data edge stays within a device group, or starts or ends at a message",
     "gradient work and orders depend on distances between computations", &on_module<&passes::insert_transfers>},
    {"form_buckets", "build", "programs, distribution",
     "accumulators of gradients, and the buckets in which gradients are reduced, updated and sharded",
     "insert_gradient_work inserts one reduction for each bucket. This pass does not change the DAG", &form_buckets},
    {"insert_gradient_work", "build", "computations, messages and buckets",
     "a complete step: reductions, sums of tied parameters, clipping, updates",
     "a reduction waits for all computations of its gradients, so no later pass adds one",
     &on_module<&passes::insert_gradient_work>},
    // ---------------------------------------------------------------- one order for all ranks
    {"add_order_edges", "order", "a complete step",
     "orders of the strategy are edges, and the order in which microbatches update running statistics",
     "an order applies only where data do not already decide, so all data edges must exist",
     &on_module<&passes::add_order_edges>},
    {"order_nodes", "order", "all edges", "one linear order of the whole DAG. Every rank takes its part of it",
     "all edges exist. Later passes may insert nodes into the order, but not change it",
     &on_module<&passes::order_nodes>},
    {"delay_gathers", "order", "the order",
     "a sequence that a backward pass gathers again is gathered directly before it",
     "the data exist since the forward pass, so only the final order says how late the gather can be",
     &on_module<&passes::delay_gathers>},
    {"insert_gathers", "order", "the order", "sharded parameters are gathered before their readers",
     "only the final order says how far ahead a gather is issued", &on_module<&passes::insert_gathers>},
    {"lay_out_state", "order", "the order, gathers",
     "it is decided who saves each tensor of the model, and before which node gradients are set to zero",
     "only the final order says which computation comes first", &lay_out_state},
    // ---------------------------------------------------------------- plans
    {"lay_out_training", "emit", "final parameters, and which of them are trained",
     "each parameter has its optimizer group, each input its role in a token stream",
     "after the passes that make or divide parameters. Before derive_evaluation, whose module has the same inputs",
     &lay_out_training},
    {"derive_evaluation", "emit", "a complete step",
     "if the strategy has `eval`, a second module with only forward passes",
     "its programs are copies of the finished forward passes, and its parameters are where the step leaves them",
     &derive_evaluation},
    {"emit_plans", "emit", "ordered modules", "a plan for every rank, and one for its evaluation",
     "it writes what the earlier passes decided, and decides nothing", &emit_plans},
};

}  // namespace

std::span<const Pass> pipeline() { return kPipeline; }

const Pass* find_pass(std::string_view name) {
  for (const Pass& pass : kPipeline)
    if (pass.name == name) return &pass;
  return nullptr;
}

}  // namespace piper::driver
