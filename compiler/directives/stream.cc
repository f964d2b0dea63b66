#include "compiler/directives/stream.h"

#include <algorithm>

#include "compiler/directives/select.h"
#include "compiler/strategy/directive_args.h"
#include "compiler/strategy/filter.h"

namespace piper::directives {

using strategy::ArgKind;

const strategy::DirectiveSpec& stream_spec() {
  static const strategy::DirectiveSpec spec = {
      .name = "stream",
      .summary = "runs the matched computations on a named stream",
      .doc =
          "Chunks on different streams of a device can run at the same time, unless a data dependence or "
          "an `order` forbids it. Computations without a `stream` directive run on the stream `compute`.",
      .args =
          {
              {"filter", ArgKind::kFilter, true, "", "the computations", {}},
              {"name",
               ArgKind::kName,
               true,
               "",
               "the name of the stream; the key `streams` of the "
               "strategy sets its resources",
               {}},
          },
      .example = "{op: stream, filter: {PP: 0, PASS: BW}, name: weights}",
      .filter_forbids = {},
  };
  return spec;
}

Status resolve_stream(const strategy::Directive& directive, Resolution& draft, diag::Diagnostics& diags) {
  PIPER_ASSIGN(const auto filter, strategy::required_arg<strategy::Filter>(directive, "filter"));
  PIPER_ASSIGN(const auto name, strategy::required_arg<std::string>(directive, "name"));
  PIPER_ASSIGN(const Selection selection, draft.selector.select(filter, diags));
  const auto is_split = [&](ir::ChunkId region) { return draft.distribution.backward_split(region); };
  if (names_half(filter) && std::none_of(selection.chunks.begin(), selection.chunks.end(), is_split)) {
    auto error = diags.error("P0204", filter.span);
    error << "the filter " << strategy::to_string(filter) << " matches no compute: no backward that it names is split";
    error.help("order BI and BW of these chunks, or use a schedule that does");
    return error;
  }
  const std::vector<ir::Phase> phases = matched_phases(filter.pass);
  for (ir::ChunkId region : selection.chunks)
    for (ir::Phase phase : phases)
      for (int32_t m : selection.microbatches) {
        const uint32_t other = draft.distribution.compute_stream(region, phase, m);
        if (other == 0 || draft.distribution.streams[other] == name) continue;
        return diags.error("P0217", directive.span)
               << "a compute of " << draft.name(region) << " is put on stream '" << name << "' and on stream '"
               << draft.distribution.streams[other] << "'";
      }
  const uint32_t stream = draft.distribution.intern_stream(name);
  for (ir::ChunkId region : selection.chunks)
    for (ir::Phase phase : phases)
      for (int32_t m : selection.microbatches) draft.properties(region).compute_streams[{phase, m}] = stream;
  return Status();
}

}  // namespace piper::directives
