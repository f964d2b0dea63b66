#include "compiler/directives/stream.h"

#include "compiler/strategy/directive_args.h"

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
              {"filter", ArgKind::kFilter, true, "",
               "the compute nodes", {}},
              {"name", ArgKind::kName, true, "",
               "the stream; resources are given under `streams`", {}},
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

}  // namespace piper::directives
