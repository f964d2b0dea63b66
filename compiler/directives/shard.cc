#include "compiler/directives/shard.h"

#include "compiler/strategy/directive_args.h"

namespace piper::directives {

using strategy::ArgKind;

const strategy::DirectiveSpec& shard_spec() {
  static const strategy::DirectiveSpec spec = {
      .name = "shard",
      .summary = "partitions the experts of the matched region over devices",
      .doc =
          "The expert dimension of the matched weights is partitioned; tokens travel to their experts and "
          "back by all_to_all at the region's boundary, forward and backward. The result equals the "
          "unsharded mixture of experts; expert gradients are not reduced over the group.\n\n"
          "Only weights that the recognised form indexes by expert are partitioned; others of the region "
          "stay replicated. A region without an expert dimension is an error.",
      .args =
          {
              {"filter", ArgKind::kFilter, true, "",
               "the regions that hold experts", {}},
              {"devices", ArgKind::kDeviceGroups, true, "",
               "one group, or a list of equal groups that partition the data group", {}},
              {"stream", ArgKind::kName, false, "ep",
               "the stream of the exchanges", {}},
              {"capacity", ArgKind::kCapacity, false, "",
               "bound of tokens per expert as a factor on the mean; without it nothing is dropped", {}},
          },
      .example = "{op: shard, filter: {EP: \"*\"}, devices: [0, 1], stream: ep}",
      .filter_forbids = {"MB", "PASS"},
  };
  return spec;
}

Result<ShardArgs> read_shard(const strategy::Directive& directive) {
  ShardArgs args;
  PIPER_ASSIGN(args.filter, strategy::required_arg<strategy::Filter>(directive, "filter"));
  PIPER_ASSIGN(args.devices, strategy::required_arg<std::vector<strategy::Devices>>(directive, "devices"));
  args.stream = strategy::arg_or(directive, "stream", args.stream);
  if (const auto* value = strategy::find_arg<strategy::Capacity>(directive, "capacity")) args.capacity = *value;
  return args;
}

}  // namespace piper::directives
