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
      .summary = "runs the matched compute on a named stream",
      .doc =
          "Chunks on different streams of a device run at the same time where no data or order edge forbids "
          "it. The stream of everything else is `compute`.",
      .args =
          {
              {"filter", ArgKind::kFilter, true, "", "the compute nodes", {}},
              {"name", ArgKind::kName, true, "", "the stream; resources are given under `streams`", {}},
          },
      .example = "{op: stream, filter: {PP: 0, PASS: BW}, name: weights}",
      .filter_forbids = {},
  };
  return spec;
}

Result<StreamArgs> read_stream(const strategy::Directive& directive) {
  StreamArgs args;
  PIPER_ASSIGN(args.filter, strategy::required_arg<strategy::Filter>(directive, "filter"));
  PIPER_ASSIGN(args.name, strategy::required_arg<std::string>(directive, "name"));
  return args;
}

Status apply_stream(const StreamArgs& args, const strategy::Directive& directive, ir::Dag& dag,
                    diag::Diagnostics& diags) {
  PIPER_ASSIGN(const Selection selection, select(dag, args.filter, diags));
  const bool half =
      args.filter.pass && (*args.filter.pass == strategy::Pass::kBI || *args.filter.pass == strategy::Pass::kBW);
  if (half && std::none_of(selection.chunks.begin(), selection.chunks.end(),
                           [&](ir::ChunkId c) { return dag.backward_split[c.index]; })) {
    auto error = diags.error("P0204", args.filter.span);
    error << "the filter " << strategy::to_string(args.filter)
          << " matches no compute: no backward that it names is split";
    error.help("order BI and BW of these chunks, or use a schedule that does");
    return error;
  }
  const uint32_t stream = dag.intern_stream(args.name);
  for (ir::ChunkId chunk : selection.chunks)
    for (size_t pass = 0; pass < ir::kNumPasses; ++pass) {
      if (!pass_matches(args.filter.pass, static_cast<ir::Pass>(pass))) continue;
      for (int32_t m : selection.microbatches) {
        const auto [it, fresh] =
            dag.streams_of_compute.emplace(std::make_tuple(chunk.index, static_cast<ir::Pass>(pass), m), stream);
        if (fresh || it->second == stream) continue;
        return diags.error("P0217", directive.span)
               << "a compute of " << dag.chunks[chunk.index].name << " is put on stream '" << args.name
               << "' and on stream '" << dag.streams[it->second] << "'";
      }
    }
  return Status();
}

}  // namespace piper::directives
