#include "compiler/directives/shard.h"

#include <algorithm>

#include "compiler/directives/shard_experts.h"
#include "compiler/directives/shard_weights.h"
#include "compiler/strategy/directive_args.h"

namespace piper::directives {

using strategy::ArgKind;

const strategy::DirectiveSpec& shard_spec() {
  static const strategy::DirectiveSpec spec = {
      .name = "shard",
      .summary =
          "divides experts, weights or embedding tables of the matched regions over devices (expert "
          "or tensor parallelism)",
      .doc =
          "`dim: expert` is expert parallelism. The weights of the experts are divided over the devices along the "
          "expert dimension. In the forward and in the backward pass, an all-to-all sends each token to the devices of "
          "its experts, and another sends the results back. The result equals that of the undivided mixture of "
          "experts. Expert gradients are not reduced over the group.\n\nThe compiler divides only weights that the "
          "model indexes by expert, in a form that the compiler recognizes. Other weights of the region stay "
          "replicated. A region without an expert dimension is an error.\n\n`capacity` limits how many rows an expert "
          "accepts. A row is a pair of a token and an expert that was chosen for this token. An expert accepts at most "
          "ceil(factor * rows / experts) rows, where `rows` is the number of rows that one rank has in one microbatch. "
          "The first rows are accepted, in the order of the tokens. The choices of one token keep their order. This "
          "also holds for a group of one device. A row over the limit counts as if the expert returned zeros, in the "
          "forward and in the backward pass. The routing weights of the other rows do not change. With `overflow: "
          "drop`, the log line and the progress line of the step say how many rows were dropped. With `overflow: "
          "error`, the run stops at the first row over the limit (R0406). The capacity also limits memory and message "
          "sizes. It applies only to experts in the grouped form (rows sorted by expert); for others it is an error "
          "(P0242).\n\n`dim: column` is tensor parallelism. The devices of a group work on the same samples, and each "
          "has a part of the weights. The weight and the bias of a first matrix product are divided along its output "
          "features. The weight of the next product that sums over these features is divided along its input features. "
          "An all-reduce sums the partial results, before the second bias is added.\n\n`weights` selects the weights "
          "to divide. Without it, the compiler divides every product of the region that it can divide. Products whose "
          "whole result is needed, such as a router or the logits, stay whole. With `column` alone, norms, residuals "
          "and embeddings also stay whole on every device. The weights of each expert are divided in the same way. The "
          "partial results are summed after the experts of a token have been combined. If another `shard` with `dim: "
          "expert` divides the experts over other groups, a device has only its own experts, and only its part of each "
          "of them. If that `shard` also divides the experts over the tensor-parallel devices (`over: [ep, tp]`), each "
          "expert stays whole, and each device sends the tokens of its part of the sequence. This needs `dim: "
          "sequence`.\n\nThe devices of a group process the same samples in all their regions. So each group is one "
          "replica, and `place` and `replicate` must name all devices.\n\n`dim: sequence` is sequence parallelism. It "
          "needs a `dim: column` over the same groups. Between the divided products (residual stream, norms, sums of "
          "embeddings), the devices of a group divide the sequence, which is axis 1 of the model's inputs. Before a "
          "product that is divided along its output features, an all-gather restores the whole sequence. After a "
          "product that is divided along its input features, a reduce-scatter replaces the all-reduce. Activations "
          "need less memory. The all-gather and the reduce-scatter together send as many bytes as the all-reduce. The "
          "backward pass gathers the whole sequence again, which costs one more all-gather per product. With "
          "`gathered: kept`, the forward pass keeps the whole sequence for the backward pass instead, which needs more "
          "memory. If another operator needs the whole sequence, such as the logits or the loss, the sequence is also "
          "gathered for this operator. `piperc --verbose` names the operator and the number of bytes.\n\n`dim: "
          "vocabulary` divides embedding tables by rows, and also the weight and bias that compute the logits. It can "
          "be used alone, or together with `column` over the same groups. A tied table is divided once. An all-reduce "
          "sums the results of the embedding lookup. Each device computes the loss from its own logits. For each row "
          "of logits, the devices exchange two numbers, and no device has all logits. The last device may have fewer "
          "rows. If something needs all logits, such as class weights or label smoothing, each device computes all "
          "logits, and `piperc --verbose` says why.",
      .args =
          {
              {"filter", ArgKind::kFilter, true, "", "the regions with the experts or the weights to divide", {}},
              {"dim",
               ArgKind::kChoice,
               false,
               "expert",
               "what is divided",
               {"expert", "column", "sequence", "vocabulary"}},
              {"devices",
               ArgKind::kDeviceGroups,
               false,
               "",
               "one group, or a list of groups of equal size. Together, the groups must cover exactly the devices of "
               "the region's `replicate`. If several groups run the region for different microbatches, this holds for "
               "each of them",
               {}},
              {"over",
               ArgKind::kRankGroups,
               false,
               "",
               "the groups, as one or several axes of the mesh or as lists of ranks. Ranks that differ only "
               "along these axes form a group. Each region uses the groups of its own devices",
               {}},
              {"weights",
               ArgKind::kGlobs,
               false,
               "",
               "patterns of parameters or modules to divide: with `column` along their output features, "
               "with `vocabulary` by rows",
               {}},
              {"gathered",
               ArgKind::kChoice,
               false,
               "again",
               "only with `dim: sequence`: with `again`, the backward pass gathers the whole sequence again; with "
               "`kept`, the forward pass keeps it",
               {"again", "kept"}},
              {"stream",
               ArgKind::kName,
               false,
               "",
               "the stream of the collectives. The default is `ep` with `dim: expert`, and `tp` with the other values "
               "of `dim`",
               {}},
              {"capacity",
               ArgKind::kCapacity,
               false,
               "",
               "limit of rows (pairs of a token and a chosen expert) per expert, as a factor of the mean number. "
               "Without it, no row is dropped. The default of `overflow` is `drop`",
               {}},
          },
      .example = "{op: shard, filter: {EP: \"*\"}, devices: [0, 1], stream: ep}",
      .filter_forbids = {"MB", "PASS"},
      .gives_devices = true,
  };
  return spec;
}

std::vector<strategy::Devices> groups_named(const strategy::Directive& directive) {
  if (const auto* over = strategy::find_arg<strategy::RankGroups>(directive, "over")) return over->groups;
  const auto* devices = strategy::find_arg<std::vector<strategy::Devices>>(directive, "devices");
  return devices != nullptr ? *devices : std::vector<strategy::Devices>();
}

namespace {

// The groups as lists of ranks: of one size, without a device in common.
Result<std::vector<std::vector<int32_t>>> read_groups(const std::vector<strategy::Devices>& devices,
                                                      diag::Diagnostics& diags) {
  std::vector<std::vector<int32_t>> groups;
  std::vector<int32_t> seen;
  for (const strategy::Devices& group : devices) {
    if (group.ranks.size() != devices[0].ranks.size())
      return diags.error("P0213", group.span) << "the groups of a 'shard' must have the same size";
    for (int32_t rank : group.ranks) {
      if (std::find(seen.begin(), seen.end(), rank) != seen.end())
        return diags.error("P0213", group.span) << "device " << rank << " is in two groups of this 'shard'";
      seen.push_back(rank);
    }
    groups.push_back(group.ranks);
  }
  return groups;
}

// The groups of `over` or of `devices`, of which there is one.
Result<RankGroups> groups_of(const strategy::Directive& directive, bool weights, diag::Diagnostics& diags) {
  const auto* devices = strategy::find_arg<std::vector<strategy::Devices>>(directive, "devices");
  const auto* over = strategy::find_arg<strategy::RankGroups>(directive, "over");
  if ((devices == nullptr) == (over == nullptr)) {
    auto error = diags.error("P0206", directive.span);
    error << "'shard' needs one of 'over' and 'devices'" << (over != nullptr ? ", and not both" : "");
    error.help("name an axis of the mesh, over: tp, or list groups of devices");
    return error;
  }
  const std::vector<strategy::Devices> listed = groups_named(directive);
  RankGroups groups;
  PIPER_ASSIGN(groups.groups, read_groups(listed, diags));
  groups.span = listed.front().span;
  groups.to_take = over != nullptr;
  const auto* stream = strategy::find_arg<std::string>(directive, "stream");
  groups.stream = stream != nullptr ? *stream : weights ? kStreamOfCuts : kStreamOfExperts;
  return groups;
}

// Error P0204: an argument of another dim.
Status belongs_to(const strategy::Directive& directive, std::string_view arg, std::string_view dim,
                  diag::Diagnostics& diags) {
  if (std::holds_alternative<std::monostate>(directive.args[strategy::arg_index(*directive.spec, arg)]))
    return Status();
  return diags.error("P0204", strategy::arg_span(directive, arg))
         << "'" << arg << "' belongs to 'shard' with dim: " << dim;
}

}  // namespace

Status resolve_shard(const strategy::Directive& directive, Resolution& draft, diag::Diagnostics& diags) {
  const std::string dim = strategy::arg_or_default<std::string>(directive, "dim");
  const bool experts = dim == "expert";
  if (!experts) PIPER_RETURN_IF_ERROR(belongs_to(directive, "capacity", "expert", diags));
  if (dim != "sequence") PIPER_RETURN_IF_ERROR(belongs_to(directive, "gathered", "sequence", diags));
  if (dim != "column" && dim != "vocabulary")
    PIPER_RETURN_IF_ERROR(belongs_to(directive, "weights", "column or vocabulary", diags));
  PIPER_ASSIGN(const RankGroups over, groups_of(directive, !experts, diags));
  return experts ? shard_experts(directive, over, draft, diags) : shard_weights(directive, over, draft, diags);
}

}  // namespace piper::directives
