#include "compiler/driver/check_decay.h"

#include <algorithm>
#include <set>

#include "compiler/diag/unmatched_globs.h"
#include "schemas/base/glob.h"

namespace piper::driver {
namespace {

std::string shown(const std::vector<std::string>& names) {
  constexpr size_t kShown = 12;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i == 0 ? "'" : ", '") + names[i] + "'";
  return names.size() > kShown ? text + ", ..." : text;
}

// Parameters that scale what a norm has normalised.
std::set<uint32_t> norm_weights(const ir::Graph& graph) {
  std::set<uint32_t> weights;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    const ir::Op& op = graph.op(ir::OpId(i));
    const bool norm = op.kind == ir::OpKind::kLayerNorm || op.kind == ir::OpKind::kRmsNorm ||
                      op.kind == ir::OpKind::kGroupNorm || op.kind == ir::OpKind::kBatchNorm;
    if (!norm || op.operands.size() < 2 || !op.operands[1].valid()) continue;
    ir::ValueId weight = op.operands[1];
    while (graph.value(weight).kind == ir::ValueKind::kOpResult &&
           graph.op(graph.value(weight).producer).kind == ir::OpKind::kCast)
      weight = graph.op(graph.value(weight).producer).operands[0];
    if (graph.value(weight).kind == ir::ValueKind::kParameter) weights.insert(graph.value(weight).payload);
  }
  return weights;
}

// `rest`: of the two updates of an optimizer of matrices, the one of what is no matrix.
Status check_update(const strategy::UpdateConfig& update, bool of_matrices, bool rest, const ir::Graph& graph,
                    diag::Diagnostics& diags) {
  const auto updates = [&](const ir::Parameter& p) { return p.trainable && (!of_matrices || p.matrix != rest); };
  std::vector<std::string> names, tails;
  for (const ir::Parameter& p : graph.parameters()) {
    if (!updates(p)) continue;
    names.push_back(p.names[0]);
    tails.insert(tails.end(), p.names.begin(), p.names.end());
  }
  std::vector<diag::GlobUse> globs;
  for (size_t i = 0; i < update.no_decay.size(); ++i)
    globs.push_back({update.no_decay[i], update.no_decay_spans[i],
                     std::any_of(graph.parameters().begin(), graph.parameters().end(), [&](const ir::Parameter& p) {
                       return (updates(p) || !p.trainable) && glob_covers(update.no_decay[i], p.names);
                     })});
  return diag::tell_unmatched_globs(globs, "P0261", diags, [&](diag::InFlight& message, const std::string& glob) {
    message << "'no_decay': no parameter that '" << update.values.kind << "' updates matches '" << glob << "'";
    message.note("it updates " + (names.empty() ? "none" : shown(names)));
    const std::string near = diag::nearest(glob, tails);
    if (!near.empty()) message.help("did you mean '" + near + "'?");
  });
}

void check_norms(const strategy::UpdateConfig& update, bool of_matrices, bool rest, const ir::Graph& graph,
                 diag::Diagnostics& diags) {
  if (update.weight_decay == 0 || update.no_decay.empty()) return;
  std::vector<std::string> decays;
  bool spared = false;
  for (const uint32_t index : norm_weights(graph)) {
    const ir::Parameter& p = graph.parameters()[index];
    if (!p.trainable || (of_matrices && p.matrix == rest)) continue;
    const bool covered = std::any_of(update.no_decay.begin(), update.no_decay.end(),
                                     [&](const std::string& glob) { return glob_covers(glob, p.names); });
    if (covered) spared = true;
    else decays.push_back(p.names[0]);
  }
  if (!spared || decays.empty()) return;
  auto warning = diags.warning("P0262", update.no_decay_spans.front());
  warning << "the weights of some norms decay, those of others do not: " << shown(decays) << " match no glob of "
          << "'no_decay'";
  warning.help("add '" + decays.front() + "', or a glob that matches all of them");
}

}  // namespace

Status check_decay(const strategy::OptimizerConfig& optimizer, const ir::Graph& graph, diag::Diagnostics& diags) {
  const bool of_matrices = optimizer.rest.has_value();
  PIPER_RETURN_IF_ERROR(check_update(optimizer, of_matrices, false, graph, diags));
  check_norms(optimizer, of_matrices, false, graph, diags);
  if (!optimizer.rest) return {};
  PIPER_RETURN_IF_ERROR(check_update(*optimizer.rest, of_matrices, true, graph, diags));
  check_norms(*optimizer.rest, of_matrices, true, graph, diags);
  return {};
}

}  // namespace piper::driver
