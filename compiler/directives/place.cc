#include "compiler/directives/place.h"

#include "compiler/directives/select.h"
#include "compiler/strategy/directive_args.h"

namespace piper::directives {

using strategy::ArgKind;

const strategy::DirectiveSpec& place_spec() {
  static const strategy::DirectiveSpec spec = {
      .name = "place",
      .summary = "runs the matched chunks on a group of devices",
      .doc =
          "A chunk is a part of the model that runs as one unit, such as a pipeline stage. Each device is a replica, "
          "and its position in `devices` is its replica index. With tensor parallelism, each tensor-parallel group is "
          "one replica. Where data cross from one group to another, the compiler inserts a send and a receive: one "
          "message for each tensor that the other group reads. If there are several replicas, a `replicate` must name "
          "exactly the same devices. No `replicate` is needed if a `shard` divides the experts of the chunks over "
          "these devices.\n\nThe filter may name microbatches. So several groups of devices can run the same chunk, "
          "each for different microbatches. If you place one chunk, you must place all chunks. If no directive places "
          "a chunk, everything runs on device 0. With a schedule and no placement, each pipeline rank is one device.",
      .args =
          {
              {"filter", ArgKind::kFilter, true, "", "the chunks; may name microbatches, but not passes", {}},
              {"devices", ArgKind::kDevices, true, "", "the devices, in the order of their replica indices", {}},
              {"stream", ArgKind::kName, false, "pp", "the stream on which these chunks send their messages", {}},
          },
      .example = "{op: place, filter: {PP: 0}, devices: [0, 1], stream: pp}",
      .filter_forbids = {"PASS"},
      .gives_devices = true,
  };
  return spec;
}

Status resolve_place(const strategy::Directive& directive, Resolution& draft, diag::Diagnostics& diags) {
  PIPER_ASSIGN(const auto filter, strategy::required_arg<strategy::Filter>(directive, "filter"));
  PIPER_ASSIGN(const auto devices, strategy::required_arg<strategy::Devices>(directive, "devices"));
  const auto stream = strategy::arg_or_default<std::string>(directive, "stream");
  PIPER_ASSIGN(const Selection selection, draft.selector.select(filter, diags));
  for (ir::ChunkId region : selection.chunks)
    for (int32_t m : selection.microbatches) {
      const Claim& claim = draft.claims.at(region, m);
      if (claim.ranks.empty() || claim.ranks == devices.ranks) continue;
      auto error = diags.error("P0217", devices.span);
      error << draft.name(region) << " is placed twice, on devices " << strategy::to_string(devices)
            << " and on other devices";
      error.note("the other 'place' is here", claim.span);
      return error;
    }
  // Messages of a region go on one stream, whichever microbatch they are of.
  for (ir::ChunkId region : selection.chunks)
    for (int32_t m = 0; m < draft.claims.num_microbatches(); ++m) {
      const Claim& claim = draft.claims.at(region, m);
      if (claim.stream.empty() || claim.stream == stream) continue;
      auto error = diags.error("P0217", directive.span);
      error << draft.name(region) << " sends its messages on two streams, '" << stream << "' and '" << claim.stream
            << "'";
      error.note("the other 'place' is here", claim.claimed_by);
      return error;
    }
  for (ir::ChunkId region : selection.chunks)
    for (int32_t m : selection.microbatches) {
      Claim& claim = draft.claims.at(region, m);
      claim.ranks = devices.ranks;
      claim.span = devices.span;
      claim.claimed_by = directive.span;
      claim.stream = stream;
    }
  return Status();
}

}  // namespace piper::directives
