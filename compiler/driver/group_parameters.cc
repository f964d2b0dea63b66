#include "compiler/driver/group_parameters.h"

#include <algorithm>
#include <string>

#include "compiler/diag/unmatched_globs.h"
#include "schemas/base/glob.h"

namespace piper::driver {
namespace {

bool cover(const std::vector<std::string>& globs, const ir::Parameter& parameter) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const std::string& glob) { return glob_covers(glob, parameter.names); });
}

// The groups of one of the optimizers, and which of them a parameter is of.
class Groups {
 public:
  Groups(const strategy::UpdateConfig& update, bool rest, std::vector<plan::OptimizerGroup>& out)
      : update_(update), used_(update.groups.size()) {
    const std::string prefix = rest ? "rest_" : "";
    const auto add = [&](plan::OptimizerGroup group, bool decays_by_name) {
      firsts_.push_back(static_cast<int32_t>(out.size()));
      out.push_back(group);
      if (!decays_by_name) return;
      group.name = group.name == prefix + "decay" ? prefix + "no_decay" : group.name + "_no_decay";
      group.weight_decay = 0;
      out.push_back(std::move(group));
    };
    const bool by_name = !update.no_decay.empty();
    add({prefix + "decay", update.weight_decay, rest}, by_name);
    for (size_t i = 0; i < update.groups.size(); ++i) {
      const strategy::GroupConfig& group = update.groups[i];
      used_[i].resize(group.match.size());
      add({prefix + "group" + std::to_string(i), group.weight_decay.value_or(update.weight_decay), rest,
           group.lr_factor, group.beta1, group.beta2},
          by_name && !group.weight_decay);
    }
  }

  int32_t of(const ir::Parameter& parameter) {
    const bool undecayed = cover(update_.no_decay, parameter);
    for (size_t i = 0; i < update_.groups.size(); ++i) {
      const strategy::GroupConfig& group = update_.groups[i];
      bool matches = false;
      for (size_t g = 0; g < group.match.size(); ++g)
        if (glob_covers(group.match[g], parameter.names)) used_[i][g] = matches = true;
      if (matches) return firsts_[i + 1] + (undecayed && !group.weight_decay ? 1 : 0);
    }
    return firsts_[0] + (undecayed ? 1 : 0);
  }

  Status check(diag::Diagnostics& diags) const {
    for (size_t i = 0; i < used_.size(); ++i) {
      const strategy::GroupConfig& group = update_.groups[i];
      std::vector<diag::GlobUse> uses;
      for (size_t g = 0; g < group.match.size(); ++g)
        uses.push_back({group.match[g], group.match_spans[g], used_[i][g] != 0});
      PIPER_RETURN_IF_ERROR(
          diag::tell_unmatched_globs(uses, "P0254", diags, [](auto& message, const std::string& glob) {
            message << "no trained parameter that is still without a group matches '" << glob << "'";
            message.note("a parameter is of the first group that matches it, and of the optimizer that updates it");
          }));
    }
    return {};
  }

 private:
  const strategy::UpdateConfig& update_;
  std::vector<int32_t> firsts_;          // [0] of what no group matches, then [group]
  std::vector<std::vector<char>> used_;  // [group][glob]
};

}  // namespace

Result<GroupedParameters> group_parameters(const strategy::OptimizerConfig& optimizer, const ir::Graph& graph,
                                           diag::Diagnostics& diags) {
  GroupedParameters result;
  static_cast<plan::OptimizerNumbers&>(result.optimizer) = optimizer.values;
  Groups own(optimizer, false, result.optimizer.groups);
  std::optional<Groups> rest;
  if (optimizer.rest) {
    result.optimizer.rest = optimizer.rest->values;
    rest.emplace(*optimizer.rest, true, result.optimizer.groups);
  }
  for (const ir::Parameter& p : graph.parameters())
    result.of_parameter.push_back(p.trainable ? (rest && !p.matrix ? *rest : own).of(p) : 0);
  PIPER_RETURN_IF_ERROR(own.check(diags));
  if (rest) PIPER_RETURN_IF_ERROR(rest->check(diags));
  return result;
}

}  // namespace piper::driver
