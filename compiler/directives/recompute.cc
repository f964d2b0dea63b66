#include "compiler/directives/recompute.h"

#include <algorithm>
#include <set>
#include <string>

#include "compiler/diag/unmatched_globs.h"
#include "compiler/directives/select.h"
#include "compiler/ir/layer_of.h"
#include "compiler/strategy/directive_args.h"
#include "schemas/base/glob.h"

namespace piper::directives {

using strategy::ArgKind;

const strategy::DirectiveSpec& recompute_spec() {
  static const strategy::DirectiveSpec spec = {
      .name = "recompute",
      .summary =
          "frees saved activations and computes them again for the backward pass (activation "
          "checkpointing)",
      .doc =
          "For example, `{op: recompute, filter: {}, modules: [\"*.mlp\"]}` recomputes all MLPs. After the forward "
          "pass, the matched chunks free their saved activations and keep only their inputs. At the start of the "
          "backward pass, they run the forward pass again. The second forward pass gives the same values, because "
          "random masks depend only on counters. With `ops`, `modules` or `layers`, only the operators that match all "
          "given keys are recomputed. The other operators keep their saved activations.\n\nReplicated chunks are "
          "divided into segments of about the size of a bucket. Each segment is recomputed separately, from kept "
          "inputs. So that few values are kept, recomputed chunks are divided only where few values cross: between "
          "layers, and not inside an MLP, attention or experts. Their segments can therefore be smaller or larger than "
          "a bucket.\n\nIf experts are divided over ranks and all operators of all microbatches are recomputed, the "
          "backward pass also repeats the all-to-all that sends tokens to the experts. If it needs the results of the "
          "experts, it also repeats the all-to-all that sends the results back. Tokens go to the same experts as in "
          "the forward pass, because their order and their numbers are kept.\n\nThe filter may name microbatches. The "
          "other microbatches of the chunk then keep their saved activations.",
      .args =
          {
              {"filter", ArgKind::kFilter, false, "{}", "the chunks; may name microbatches, but not passes", {}},
              {"ops",
               ArgKind::kChoice,
               false,
               "all",
               "which operators are recomputed: all; all except matrix products, convolutions and attention; "
               "or only attention",
               {"all", "all_but_products", "attention"}},
              {"modules", ArgKind::kGlobs, false, "", "patterns of modules whose operators are recomputed", {}},
              {"layers",
               ArgKind::kShare,
               false,
               "1",
               "the fraction of the layers of each region that is recomputed, from the first layer on. A "
               "layer is a module with a number, such as h.0",
               {}},
              {"exchanged",
               ArgKind::kChoice,
               false,
               "again",
               "only with `ops: all`: with `again`, the backward pass repeats the all-to-alls that send tokens to "
               "experts; with `kept`, the received tokens are kept",
               {"again", "kept"}},
          },
      .example = "{op: recompute, filter: {PP: \"*\"}, modules: [\"*.mlp\"]}",
      .filter_forbids = {"PASS"},
  };
  return spec;
}

namespace {

ir::Repeats read_repeats(const strategy::Directive& directive) {
  ir::Repeats repeats;
  const auto ops = strategy::arg_or_default<std::string>(directive, "ops");
  repeats.ops = ops == "attention"          ? ir::RepeatedOps::kAttention
                : ops == "all_but_products" ? ir::RepeatedOps::kAllButProducts
                                            : ir::RepeatedOps::kAll;
  repeats.layers = strategy::arg_or_default<double>(directive, "layers");
  repeats.keeps_exchanged = strategy::arg_or_default<std::string>(directive, "exchanged") == "kept";
  if (const auto* modules = strategy::find_arg<strategy::Globs>(directive, "modules")) repeats.modules = modules->globs;
  return repeats;
}

Status check_modules(const strategy::Directive& directive, const Selection& selection, const Resolution& draft,
                     diag::Diagnostics& diags) {
  const auto* modules = strategy::find_arg<strategy::Globs>(directive, "modules");
  if (modules == nullptr) return {};
  std::set<std::string> paths;
  for (size_t i = 0; i < draft.graph.num_ops(); ++i) {
    const ir::Op& op = draft.graph.op(ir::OpId(i));
    if (std::binary_search(selection.chunks.begin(), selection.chunks.end(), op.chunk))
      paths.insert(draft.graph.scope(op.scope));
  }
  std::vector<diag::GlobUse> uses;
  for (size_t i = 0; i < modules->globs.size(); ++i) {
    const std::string& glob = modules->globs[i];
    const bool matches =
        std::any_of(paths.begin(), paths.end(), [&](const std::string& path) { return glob_covers(glob, path); });
    uses.push_back({glob, modules->spans[i], matches});
  }
  return diag::tell_unmatched_globs(uses, "P0210", diags, [&](diag::InFlight& message, const std::string& glob) {
    message << "no recomputed module matches '" << glob << "'";
    const std::string near = diag::nearest(glob, {paths.begin(), paths.end()});
    if (!near.empty()) message.help("did you mean '" + near + "'?");
  });
}

// An error where none of the operators that are chosen is one that the directive repeats: it would change nothing.
Status check_effect(const strategy::Directive& directive, const ir::Repeats& repeats, const Selection& selection,
                    const Resolution& draft, diag::Diagnostics& diags) {
  const bool of_layers = repeats.layers < 1;
  if (repeats.ops == ir::RepeatedOps::kAll && !of_layers) return Status();
  for (size_t i = 0; i < draft.graph.num_ops(); ++i) {
    const ir::Op& op = draft.graph.op(ir::OpId(i));
    const std::string& path = draft.graph.scope(op.scope);
    if (std::binary_search(selection.chunks.begin(), selection.chunks.end(), op.chunk) &&
        ir::is_among(op.kind, repeats.ops) && (!of_layers || !ir::layer_of(path).empty()) &&
        (repeats.modules.empty() || std::any_of(repeats.modules.begin(), repeats.modules.end(),
                                                [&](const std::string& glob) { return glob_covers(glob, path); })))
      return Status();
  }
  auto error = diags.error("P0244", strategy::arg_span(directive, of_layers ? "layers" : "ops"));
  error << "the chunks that the filter selects have none of these operators"
        << (repeats.modules.empty() ? "" : ", in these modules") << (of_layers ? ", in a module with a number" : "");
  return error.help("leave the key out, or select what has such operators");
}

}  // namespace

Status resolve_recompute(const strategy::Directive& directive, Resolution& draft, diag::Diagnostics& diags) {
  const auto* filter = strategy::find_arg<strategy::Filter>(directive, "filter");
  PIPER_ASSIGN(const Selection selection,
               draft.selector.select(filter == nullptr ? strategy::Filter() : *filter, diags));
  PIPER_RETURN_IF_ERROR(check_modules(directive, selection, draft, diags));
  const ir::Repeats repeats = read_repeats(directive);
  PIPER_RETURN_IF_ERROR(check_effect(directive, repeats, selection, draft, diags));
  for (ir::ChunkId region : selection.chunks) {
    const ir::ChunkProperties& row = draft.properties(region);
    const bool before = std::find(row.recomputed.begin(), row.recomputed.end(), true) != row.recomputed.end();
    if (!before || row.repeats == repeats) continue;
    auto error = diags.error("P0217", directive.span);
    error << draft.name(region) << " is recomputed by two directives that name different operators";
    error.help("write one for both, or let their filters name other chunks");
    return error;
  }
  for (ir::ChunkId region : selection.chunks) {
    ir::ChunkProperties& row = draft.properties(region);
    row.repeats = repeats;
    for (int32_t m : selection.microbatches) row.recomputed[m] = true;
  }
  return Status();
}

}  // namespace piper::directives
