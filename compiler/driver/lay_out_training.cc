#include "compiler/driver/lay_out_training.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "compiler/driver/group_parameters.h"

namespace piper::driver {
namespace {

// What a token stream feeds to each graph input. Labels that the graph shifts itself get the tokens.
std::vector<plan::Feed> token_feeds(const ir::Graph& graph, const strategy::ModelConfig& config) {
  std::vector<plan::Feed> feeds;
  const auto uses = graph.uses();
  for (const ir::Input& input : graph.inputs()) {
    auto said = config.inputs.find(input.name);
    plan::Feed feed = plan::Feed::kNone;
    if (said != config.inputs.end()) {
      feed = said->second.feed;
    } else if (input.name == "idx" || input.name == "input_ids") {
      feed = plan::Feed::kTokens;
    } else if (input.name == "targets") {
      feed = plan::Feed::kNextTokens;
    } else if (input.name == "labels") {
      const bool shifts = std::any_of(uses[input.value.index].begin(), uses[input.value.index].end(), [&](ir::OpId op) {
        const ir::OpKind kind = graph.op(op).kind;
        return kind == ir::OpKind::kPad || kind == ir::OpKind::kSlice;
      });
      feed = shifts ? plan::Feed::kTokens : plan::Feed::kNextTokens;
    }
    feeds.push_back(feed);
  }
  return feeds;
}

}  // namespace

Status lay_out_training(Compilation& c, diag::Diagnostics& diags) {
  const strategy::Strategy& strategy = c.strategy;
  if (!strategy.optimizer) return Status::failure("P0238", "the strategy has no optimizer");
  const ir::Graph& graph = c.module.graph();
  ir::Training& training = c.module.training;
  PIPER_ASSIGN(GroupedParameters grouped, group_parameters(*strategy.optimizer, graph, diags));
  training.optimizer = std::move(grouped.optimizer);
  training.group_of = std::move(grouped.of_parameter);
  training.feeds = token_feeds(graph, strategy.model);
  training.lr_schedule = strategy.lr_schedule;
  training.run = strategy.run;
  return Status();
}

}  // namespace piper::driver
