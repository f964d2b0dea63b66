#include "compiler/directives/directive_table.h"

#include "compiler/directives/note.h"
#include "compiler/directives/order.h"
#include "compiler/directives/place.h"
#include "compiler/directives/recompute.h"
#include "compiler/directives/replicate.h"
#include "compiler/directives/shard.h"
#include "compiler/directives/split.h"
#include "compiler/directives/stream.h"
#include "compiler/strategy/describe_specs.h"

namespace piper::directives {

std::span<const strategy::DirectiveSpec* const> all_specs() {
  static const strategy::DirectiveSpec* const kSpecs[] = {
#define PIPER_DIRECTIVE(name, stage) &name##_spec(),
#define PIPER_STEP_DIRECTIVE(name) &name##_spec(),
#include "compiler/directives/directive_table.def"
#undef PIPER_STEP_DIRECTIVE
#undef PIPER_DIRECTIVE
  };
  return kSpecs;
}

const strategy::DirectiveSpec* find_spec(std::string_view name) {
  for (const strategy::DirectiveSpec* spec : all_specs()) {
    if (spec->name == name) return spec;
  }
  return nullptr;
}

void resolve_stage(Stage stage, const std::vector<strategy::Directive>& directives, Resolution& draft,
                   diag::Diagnostics& diags) {
  struct Row {
    const strategy::DirectiveSpec* spec;
    Stage stage;
    Status (*resolve)(const strategy::Directive&, Resolution&, diag::Diagnostics&);
  };
  static const Row kRows[] = {
#define PIPER_DIRECTIVE(name, stage) {&name##_spec(), Stage::stage, &resolve_##name},
#define PIPER_STEP_DIRECTIVE(name)
#include "compiler/directives/directive_table.def"
#undef PIPER_STEP_DIRECTIVE
#undef PIPER_DIRECTIVE
  };
  for (const Row& row : kRows)
    for (const strategy::Directive& directive : directives) {
      if (row.stage != stage || directive.spec != row.spec) continue;
      Status status = row.resolve(directive, draft, diags);
      if (!status.ok() && !status.error().reported)
        diags.error(status.error().code, directive.span) << status.error().message;
    }
}

std::string help_directive(std::string_view name) {
  const strategy::DirectiveSpec* spec = find_spec(name);
  return spec == nullptr ? "" : strategy::help_text(*spec);
}

}  // namespace piper::directives
