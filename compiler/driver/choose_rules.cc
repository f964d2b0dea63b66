#include "compiler/driver/choose_rules.h"

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/analysis/hidden_matrices.h"
#include "compiler/diag/unmatched_globs.h"
#include "compiler/driver/check_decay.h"
#include "schemas/base/glob.h"
#include "schemas/plan/optimizers.h"

namespace piper::driver {
namespace {

// Some names of the model's matrices.
std::string some_of(const ir::Graph& graph, const std::vector<bool>& matrices) {
  constexpr size_t kShown = 12;
  std::string text;
  size_t found = 0;
  for (size_t p = 0; p < matrices.size(); ++p)
    if (matrices[p] && found++ < kShown) text += (text.empty() ? "" : ", ") + graph.parameters()[p].names[0];
  return found > kShown ? text + ", ..." : text;
}

// Each of `except` says something.
Status check_except(const Compilation& c, const ir::Graph& graph, const std::vector<bool>& matrices,
                    diag::Diagnostics& diags) {
  const strategy::OptimizerConfig& optimizer = *c.strategy.optimizer;
  std::vector<diag::GlobUse> uses;
  for (size_t i = 0; i < optimizer.except.size(); ++i) {
    bool matches = false;
    for (size_t p = 0; p < matrices.size(); ++p)
      matches = matches || (matrices[p] && glob_covers(optimizer.except[i], graph.parameters()[p].names));
    uses.push_back({optimizer.except[i], optimizer.except_spans[i], matches});
  }
  return diag::tell_unmatched_globs(uses, "P0251", diags, [&](diag::InFlight& message, const std::string& glob) {
    message << "'" << optimizer.values.kind << "' updates no matrix that '" << glob << "' matches";
    message.note("it updates " + some_of(graph, matrices));
  });
}

}  // namespace

Status choose_rules(Compilation& c, diag::Diagnostics& diags) {
  if (!c.strategy.optimizer) return {};
  const strategy::OptimizerConfig& optimizer = *c.strategy.optimizer;
  const plan::OptimizerInfo* const info = plan::find_optimizer(optimizer.values.kind);
  if (info == nullptr) return {};
  if (!info->of_matrices) return check_decay(optimizer, c.module.graph(), diags);
  if (c.target.device != plan::DeviceKind::kCpu) {
    auto error = diags.error("P0252", optimizer.span);
    error << "'" << optimizer.values.kind << "' updates matrices only on CPU ranks, and the plans are for GPUs";
    return error;
  }
  for (ir::ModelVariant& variant : c.module.variants) {
    ir::Graph& graph = variant.chunked.graph;
    std::vector<bool> matrices = analysis::hidden_matrices(graph);
    if (std::find(matrices.begin(), matrices.end(), true) == matrices.end()) {
      auto error = diags.error("P0251", optimizer.span);
      error << "the model has no hidden layer's matrix for '" << optimizer.values.kind << "' to update";
      return error;
    }
    PIPER_RETURN_IF_ERROR(check_except(c, graph, matrices, diags));
    for (size_t p = 0; p < matrices.size(); ++p) {
      ir::Parameter& parameter = graph.parameters()[p];
      parameter.matrix =
          matrices[p] && std::none_of(optimizer.except.begin(), optimizer.except.end(),
                                      [&](const std::string& glob) { return glob_covers(glob, parameter.names); });
    }
  }
  return check_decay(optimizer, c.module.graph(), diags);
}

}  // namespace piper::driver
