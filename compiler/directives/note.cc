#include "compiler/directives/note.h"

#include "compiler/strategy/directive_args.h"

namespace piper::directives {

using strategy::ArgKind;

const strategy::DirectiveSpec& note_spec() {
  static const strategy::DirectiveSpec spec = {
      .name = "note",
      .summary = "attaches a comment to the matched chunks",
      .doc =
          "The plan has the comment, with its line in the strategy, next to the origin of each computation "
          "of these chunks. `piper-plan explain` shows it. A note changes nothing else. If several notes "
          "match a chunk, the plan has all of them.",
      .args =
          {
              {"filter", ArgKind::kFilter, true, "", "the chunks; may name neither microbatches nor passes", {}},
              {"text", ArgKind::kName, true, "", "the comment", {}},
          },
      .example = "{op: note, filter: {PP: 0}, text: \"small on purpose: the embedding is here\"}",
      .filter_forbids = {"MB", "PASS"},
  };
  return spec;
}

Status resolve_note(const strategy::Directive& directive, Resolution& draft, diag::Diagnostics& diags) {
  PIPER_ASSIGN(const auto filter, strategy::required_arg<strategy::Filter>(directive, "filter"));
  PIPER_ASSIGN(const auto text, strategy::required_arg<std::string>(directive, "text"));
  PIPER_ASSIGN(const Selection selection, draft.selector.select(filter, diags));
  const ir::ProvId note = draft.provenance.directive({"note '" + text + "'", diags.place(directive.span)});
  for (ir::ChunkId region : selection.chunks) draft.properties(region).notes.push_back(note);
  return Status();
}

}  // namespace piper::directives
