#include "compiler/directives/place.h"

#include "compiler/directives/select.h"
#include "compiler/strategy/directive_args.h"

namespace piper::directives {

using strategy::ArgKind;

const strategy::DirectiveSpec& place_spec() {
  static const strategy::DirectiveSpec spec = {
      .name = "place",
      .summary = "runs the matched chunks on a device group",
      .doc =
          "A position in `devices` is a replica index. Where a data edge crosses groups, send and receive "
          "pairs are inserted, one message per tensor that a consumer really reads. Several devices need a "
          "replicate or shard over exactly that list.\n\n"
          "A filter may name microbatches: then the same region lives on several devices, each doing some "
          "of the microbatches. If any chunk is placed, all must be; without any place, everything runs on "
          "device 0.",
      .args =
          {
              {"filter", ArgKind::kFilter, true, "", "the chunks; may name microbatches, not passes", {}},
              {"devices", ArgKind::kDevices, true, "", "the group, in replica order", {}},
              {"stream", ArgKind::kName, false, "pp", "the stream of the messages to and from these chunks", {}},
          },
      .example = "{op: place, filter: {PP: 0}, devices: [0, 1], stream: pp}",
      .filter_forbids = {"PASS"},
  };
  return spec;
}

Result<PlaceArgs> read_place(const strategy::Directive& directive) {
  PlaceArgs args;
  PIPER_ASSIGN(args.filter, strategy::required_arg<strategy::Filter>(directive, "filter"));
  PIPER_ASSIGN(args.devices, strategy::required_arg<strategy::Devices>(directive, "devices"));
  args.stream = strategy::arg_or(directive, "stream", args.stream);
  return args;
}

Status apply_place(const PlaceArgs& args, const strategy::Directive& directive, const ir::Dag& dag,
                   Placement& placement, diag::Diagnostics& diags) {
  PIPER_ASSIGN(const Selection selection, select(dag, args.filter, diags));
  for (ir::ChunkId chunk : selection.chunks) {
    for (int32_t m : selection.microbatches) {
      const Claim& claim = placement.at(chunk, m);
      if (!claim.ranks.empty() && claim.ranks != args.devices.ranks) {
        auto error = diags.error("P0217", args.devices.span);
        error << dag.chunks[chunk.index].name << " is placed twice, on devices " << strategy::to_string(args.devices)
              << " and on other ones";
        error.note("the other 'place' is here", claim.span);
        return error;
      }
    }
  }
  for (ir::ChunkId chunk : selection.chunks)
    for (int32_t m : selection.microbatches) {
      Claim& claim = placement.at(chunk, m);
      claim.ranks = args.devices.ranks;
      claim.span = args.devices.span;
      claim.directive = directive.span;
      claim.stream = args.stream;
    }
  return Status();
}

}  // namespace piper::directives
