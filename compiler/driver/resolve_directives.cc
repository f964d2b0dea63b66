#include "compiler/driver/resolve_directives.h"

#include <set>
#include <string>
#include <vector>

#include "compiler/directives/directive_table.h"
#include "compiler/directives/order.h"
#include "compiler/directives/shard.h"

namespace piper::driver {
namespace {

using directives::Resolution;
using directives::Stage;

// Errors of the draft so far: what comes next would only repeat them.
Status failure(const diag::Diagnostics& diags, size_t errors_before) {
  if (diags.num_errors() == errors_before) return Status();
  return Status::reported(diags.all().back().code);
}

// P0244 where `streams` names one that no directive of the strategy uses, and none would by default.
void check_stream_names(const strategy::Strategy& strategy, const std::vector<std::string>& used,
                        diag::Diagnostics& diags) {
  std::set<std::string> names(used.begin(), used.end());
  names.insert({directives::kStreamOfExperts, directives::kStreamOfCuts});
  for (const strategy::DirectiveSpec* spec : directives::all_specs())
    for (const strategy::ArgSpec& arg : spec->args)
      if (arg.kind == strategy::ArgKind::kName && !arg.default_text.empty()) names.emplace(arg.default_text);
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  for (const strategy::StreamConfig& stream : strategy.streams)
    if (!names.contains(stream.name))
      diags.error("P0244", stream.span).help("write one of " + list + ", or give the name in a directive")
          << "no stream has the name '" << stream.name << "', so its resources have no effect";
}

}  // namespace

Status resolve_directives(Compilation& c, diag::Diagnostics& diags) {
  const size_t errors_before = diags.num_errors();
  const std::vector<strategy::Directive>& own = c.strategy.directives;
  Resolution draft(c.module);
  directives::resolve_stage(Stage::kPlace, own, draft, diags);
  // The schedule reads its ranks from what the user claims: from a wrong claim it would draw wrong conclusions.
  const bool placed = diags.num_errors() == errors_before;
  if (placed && c.strategy.schedule) {
    auto expanded = expand_schedule(*c.strategy.schedule, draft, c.table ? &*c.table : nullptr, diags);
    if (expanded.ok()) c.schedule = std::move(expanded).value();
    directives::resolve_stage(Stage::kPlace, c.schedule.placement, draft, diags);
    directives::resolve_stage(Stage::kPlace, c.schedule.replication, draft, diags);
  }
  // Skips the checks across claims if a single claim is already wrong.
  if (diags.num_errors() == errors_before) (void)directives::settle(draft, diags);  // its error is in diags
  directives::resolve_stage(Stage::kRun, own, draft, diags);
  directives::resolve_stage(Stage::kRun, c.schedule.orders, draft, diags);
  if (directives::split_backwards(draft, diags).ok())
    directives::resolve_stage(Stage::kBehindOrders, own, draft, diags);
  PIPER_RETURN_IF_ERROR(failure(diags, errors_before));

  for (size_t s = 0; s < draft.expert_streams.size(); ++s)
    draft.distribution.expert_groups[s].stream = draft.distribution.intern_stream(draft.expert_streams[s]);
  for (size_t s = 0; s < draft.cut_streams.size(); ++s)
    draft.distribution.cuts[s].stream = draft.distribution.intern_stream(draft.cut_streams[s]);
  if (c.module.step.cut_by.line == 0) c.module.step.cut_by = draft.cut_by;
  check_stream_names(c.strategy, draft.distribution.streams, diags);
  PIPER_RETURN_IF_ERROR(failure(diags, errors_before));
  for (const strategy::StreamConfig& stream : c.strategy.streams)
    draft.distribution.resources.push_back({stream.name, stream.priority, static_cast<int32_t>(stream.max_ctas)});
  c.module.distribution = std::move(draft.distribution);
  c.module.schedule = std::move(draft.schedule);
  c.module.provenance = std::move(draft.provenance);
  return Status();
}

}  // namespace piper::driver
