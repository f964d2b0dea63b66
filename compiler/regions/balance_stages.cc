#include <algorithm>
#include <span>

#include "compiler/regions/assign_regions.h"
#include "compiler/analysis/model_flops.h"
#include "compiler/ir/layer_of.h"

namespace piper::regions {
namespace {

// A path without a number is its own block.
std::string_view block_of(const std::string& scope) {
  const std::string_view layer = ir::layer_of(scope);
  return layer.empty() ? std::string_view(scope) : layer;
}

struct Block {
  size_t first_op = 0;
  double cost = 0;
};

// Number of stages that greedy filling up to `limit` needs.
int32_t stages_needed(std::span<const Block> blocks, double limit) {
  int32_t stages = 1;
  double sum = 0;
  for (const Block& block : blocks) {
    if (sum > 0 && sum + block.cost > limit) {
      ++stages;
      sum = 0;
    }
    sum += block.cost;
  }
  return stages;
}

// The least cost of the dearest of so many stages.
double least_limit(std::span<const Block> blocks, int32_t num_stages) {
  double low = 0, high = 0;
  for (const Block& block : blocks) low = std::max(low, block.cost), high += block.cost;
  for (int step = 0; step < 60 && low < high; ++step) {
    const double middle = low + (high - low) / 2;
    (stages_needed(blocks, middle) <= num_stages ? high : low) = middle;
  }
  return high;
}

// Block index at which each stage begins. Filled from the back: what is left over makes the first stages the lightest
// (they keep the most activations), and a small block such as a norm goes with the block that follows it. Each stage
// has the limit of those that are left to fill: the first ones share what is left, and none of them is empty except for
// it.
std::vector<size_t> cut(std::span<const Block> blocks, int32_t num_stages) {
  // Two percent of room let small blocks go where fewer values cross.
  constexpr double kRoom = 1.02;
  std::vector<size_t> begins;
  size_t end = blocks.size();
  for (int32_t stage = num_stages; stage > 1; --stage) {
    const double limit = kRoom * least_limit(blocks.first(end), stage);
    const auto earlier = static_cast<size_t>(stage - 1);  // each needs a block
    double sum = blocks[--end].cost;
    while (end > earlier && sum + blocks[end - 1].cost <= limit) sum += blocks[--end].cost;
    begins.push_back(end);
  }
  begins.push_back(0);
  std::reverse(begins.begin(), begins.end());
  return begins;
}

}  // namespace

double estimate_flops(const ir::Graph& graph, const ir::Op& op) {
  if (const double product = analysis::product_flops(graph, op); product > 0) return product;
  switch (op.kind) {
    case ir::OpKind::kReshape:
    case ir::OpKind::kPermute:
    case ir::OpKind::kExpand:
    case ir::OpKind::kSlice:
    case ir::OpKind::kDetach: return 0;
    // Everything else moves its data once. A `default` is right here: the number is an estimate.
    default: return op.results.empty() ? 0 : static_cast<double>(graph.type(op.results[0]).elements());
  }
}

std::vector<int32_t> balance_stages(const ir::Graph& graph, const std::vector<analysis::OpRole>& roles,
                                    int32_t num_stages, std::vector<double>& stage_cost) {
  std::vector<Block> blocks;
  std::string_view current;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    if (roles[i] != analysis::OpRole::kWork) continue;
    const std::string_view block = block_of(graph.scope(graph.op(ir::OpId(i)).scope));
    // Operators of the root module stay with the block before them: they tie blocks together.
    if (blocks.empty() || (!block.empty() && block != current)) {
      blocks.push_back({blocks.empty() ? 0 : i, 0});
      current = block;
    }
    blocks.back().cost += estimate_flops(graph, graph.op(ir::OpId(i)));
  }
  if (blocks.size() < static_cast<size_t>(num_stages)) return {};
  const std::vector<size_t> begins = cut(blocks, num_stages);
  std::vector<int32_t> stage_of(graph.num_ops(), 0);
  stage_cost.assign(static_cast<size_t>(num_stages), 0);
  for (size_t s = 0; s < begins.size(); ++s) {
    const size_t last_block = s + 1 < begins.size() ? begins[s + 1] : blocks.size();
    const size_t last_op = s + 1 < begins.size() ? blocks[begins[s + 1]].first_op : graph.num_ops();
    for (size_t b = begins[s]; b < last_block; ++b) stage_cost[s] += blocks[b].cost;
    for (size_t i = blocks[begins[s]].first_op; i < last_op; ++i) stage_of[i] = static_cast<int32_t>(s);
  }
  return stage_of;
}

}  // namespace piper::regions
