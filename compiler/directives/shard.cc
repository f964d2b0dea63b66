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
      .summary = "partitions experts, weights or tables of the matched region over devices",
      .doc =
          "`dim: expert`: the expert dimension of the matched weights is partitioned; tokens travel to their experts "
          "and "
          "back by all_to_all at the region's boundary, forward and backward. The result equals the "
          "unsharded mixture of experts; expert gradients are not reduced over the group.\n\n"
          "Only weights that the recognised form indexes by expert are partitioned; others of the region "
          "stay replicated. A region without an expert dimension is an error.\n\n"
          "With `capacity` an expert takes at most ceil(factor * pairs / experts) pairs of a token and a chosen "
          "expert, of the pairs "
          "that one rank has in one microbatch, the first in the order of tokens and, for a token, of its choices; in "
          "a group of one "
          "device too. A pair that is over counts as if its expert gave zeros, forward and backward; the weights of "
          "the others stay as they "
          "are. `drop`: the step's log line and the progress line say how many pairs of the whole step were dropped. "
          "`error`: the run "
          "stops at the first one (R0406). Memory and messages are bounded by the capacity. It is for experts in the "
          "grouped form; for others it is an error (P0242).\n\n"
          "`dim: column`: tensor parallelism. The devices of a group work on the same samples, each with a part of the "
          "weights: of a product's output features, of its bias, and of the input features of the product that sums "
          "over them again, whose results an all_reduce adds up, before its own bias. What is cut is `weights`, or "
          "where it is left out every product of the region of which that is possible; a router or the logits, which "
          "are needed whole, are not. Of experts each is cut: its output features, and the input features of the "
          "matrix that sums over them; what they make is added up after the experts of a token. With `dim: expert` "
          "over other groups a device has its experts' parts. Norms, residuals and "
          "embeddings stay whole on every device. All regions on "
          "these devices share their samples, so `place` and `replicate` name all of them, and a replica is a "
          "group.\n\n"
          "`dim: sequence`, over the groups of a `dim: column`: what lies between the products that are cut, the "
          "residual stream, norms and sums of embeddings, is in parts along the sequence, axis 1 of the model's "
          "inputs, "
          "which the devices of a group divide. It is gathered before products by columns, and a reduce_scatter takes "
          "the place of the all_reduce after those that sum. Activations in memory shrink, and messages are as large "
          "as "
          "before. The backward gathers the whole sequence again, which costs one more all_gather a product; with "
          "`gathered: kept` the forward keeps it instead. What needs the whole sequence, as the logits and the loss, "
          "gets it; a remark says where, and how "
          "many bytes.\n\n"
          "`dim: vocabulary`, alone or beside `column` over the same groups: each device has a part of the rows of the "
          "tables that tokens are looked up in, and of the weight and the bias that make logits, which may be such a "
          "table. What is looked up is added up by an all_reduce; the loss is taken of each device's own logits, of "
          "which the devices tell each other two numbers a row, and no device has all. The last device may have fewer "
          "rows. Where class weights, smoothed labels or another reader need all logits, they are made whole, and a "
          "remark says why.",
      .args =
          {
              {"filter", ArgKind::kFilter, true, "", "the regions that hold experts, or weights to be cut", {}},
              {"dim",
               ArgKind::kChoice,
               false,
               "expert",
               "what is partitioned",
               {"expert", "column", "sequence", "vocabulary"}},
              {"devices",
               ArgKind::kDeviceGroups,
               false,
               "",
               "one group, or a list of equal groups that partition the data group, or each of them where microbatches "
               "have several",
               {}},
              {"over",
               ArgKind::kRankGroups,
               false,
               "",
               "the same as an axis of the mesh, or several: groups along it, one for each index of the others",
               {}},
              {"weights",
               ArgKind::kGlobs,
               false,
               "",
               "patterns of parameters or of modules: `column`, whose output features are cut; `vocabulary`, whose "
               "rows",
               {}},
              {"gathered",
               ArgKind::kChoice,
               false,
               "again",
               "`sequence`: the wholes that the forward gathers are gathered again by the backward, or kept for it",
               {"again", "kept"}},
              {"stream",
               ArgKind::kName,
               false,
               "",
               "the stream of the exchanges and sums; left out: `ep` of experts, else `tp`",
               {}},
              {"capacity",
               ArgKind::kCapacity,
               false,
               "",
               "bound of tokens per expert as a factor on the mean; without it nothing is dropped; overflow is `drop` "
               "where left out",
               {}},
          },
      .example = "{op: shard, filter: {EP: \"*\"}, devices: [0, 1], stream: ep}",
      .filter_forbids = {"MB", "PASS"},
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
      return diags.error("P0213", group.span) << "the groups of a 'shard' must have one size";
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
  const auto* stream = strategy::find_arg<std::string>(directive, "stream");
  groups.stream = stream != nullptr ? *stream : weights ? "tp" : "ep";
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
