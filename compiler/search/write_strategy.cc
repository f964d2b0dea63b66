#include "compiler/search/write_strategy.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace piper::search {
namespace {

std::string mesh_of(const Point& point, bool divides_experts) {
  std::string axes;
  const auto axis = [&](const char* name, int32_t size) {
    axes += (axes.empty() ? "" : ", ") + std::string(name) + ": " + std::to_string(size);
  };
  if (!point.pipeline_inside) axis("pp", point.pp);
  if (point.parts_over > 0) {
    axis("rep", point.dp / point.parts_over);
    axis("dp", point.parts_over);
  } else if (point.dp > 1 || (point.ep == 1 && point.tp == 1)) {
    axis("dp", point.dp);
  }
  if (point.pipeline_inside) axis("pp", point.pp);
  if (divides_experts) axis("ep", point.ep);
  if (point.tp > 1) axis("tp", point.tp);
  return "mesh: {" + axes + "}\n";
}

// Memory of GPUs depends on which ranks share a node. The ranks of the mesh are in the right order already.
std::string node_of(const Point& point, int32_t ranks_of_node) {
  if (ranks_of_node == 0 || point.ranks() <= ranks_of_node) return "";
  return "node: {ranks: " + std::to_string(ranks_of_node) + ", inside: []}\n";
}

std::string options_of(const Point& point) {
  constexpr std::array<const char*, 4> kKeys = {"", ", shard_optimizer: true", ", shard_grads: true",
                                                ", shard_params: true"};
  return kKeys[static_cast<size_t>(point.divided)] + std::string(point.parts_over > 0 ? ", parts_over: dp" : "");
}

// "0", or "[0, 4]": the stages that a group has.
std::string stages_of(const Point& point, int32_t group) {
  std::string list;
  int32_t count = 0;
  for (int32_t stage = 0; stage < point.stages(); ++stage)
    if (group_of_stage(point, stage) == group) list += (count++ > 0 ? ", " : "") + std::to_string(stage);
  return count == 1 ? list : "[" + list + "]";
}

// Lines of `replicate`, where a schedule's own would not divide anything. Of a stage on two groups, each of which has
// half of the microbatches, `place` says which: a `replicate` alone would have all of them.
std::vector<std::string> replicates(const Point& point) {
  std::vector<std::string> lines;
  if (point.divided == Divided::kNothing) return lines;
  for (int32_t group = 0; group < point.pp; ++group) {
    const std::string devices = "}, devices: {pp: " + std::to_string(group) + "}";
    const auto replicate = [&](const std::string& stages) {
      lines.push_back("{op: replicate, filter: {PP: " + stages + devices + options_of(point) + "}");
    };
    const auto place = [&](int32_t stage, int32_t first, int32_t last) {
      lines.push_back("{op: place, filter: {PP: " + std::to_string(stage) + ", MB: \"" + std::to_string(first) + ".." +
                      std::to_string(last) + "\"" + devices + "}");
    };
    replicate(stages_of(point, group));
    if (point.family != "dualpipe") continue;
    const int32_t other = point.pp - 1 - group;
    replicate(std::to_string(other));
    place(group, 0, point.microbatches / 2 - 1);
    place(other, point.microbatches / 2, point.microbatches - 1);
  }
  return lines;
}

std::string quoted_list(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "\"" : ", \"") + word + "\"";
  return "[" + list + "]";
}

// A line for all stages, "{}", or for some, "{PP: \"0..31\"}".
std::string repeat_of(Repeated repeated, const std::string& filter) {
  constexpr std::array<const char*, 4> kOps = {"", ", ops: attention", ", ops: all_but_products", ""};
  return "{op: recompute, filter: " + filter + kOps[static_cast<size_t>(repeated)] + "}";
}
std::vector<std::string> repeats(const Point& point) {
  if (point.repeated == Repeated::kNothing) return {};
  if (!point.mixed()) return {repeat_of(point.repeated, "{}")};
  const auto stages = [](int32_t first, int32_t last) {
    return "{PP: " + (first == last ? std::to_string(first) : fmt::format("\"{}..{}\"", first, last)) + "}";
  };
  std::vector<std::string> lines{repeat_of(point.repeated, stages(0, point.stages_repeated() - 1))};
  const Repeated others = lesser(point.repeated);
  if (others != Repeated::kNothing)
    lines.push_back(repeat_of(others, stages(point.stages_repeated(), point.stages() - 1)));
  return lines;
}

}  // namespace

int32_t group_of_stage(const Point& point, int32_t stage) {
  const bool folds = point.family == "zb_v" || point.family == "dualpipev";
  return folds && stage >= point.pp ? 2 * point.pp - 1 - stage : stage % point.pp;
}

std::string strategy_of(const Point& point, const BaseStrategy& base, const std::vector<std::string>& experts,
                        const std::string& head) {
  // A capacity bounds experts that a rank has all of, too.
  const bool divides_experts = point.ep > 1 || (!base.capacity.empty() && !experts.empty());
  std::string text = head + base.text + mesh_of(point, divides_experts) + node_of(point, base.ranks_of_node);
  text += "annotate:\n  - {tag: PP, stages: " + std::to_string(point.stages()) + ", balance: flops}\n";
  if (divides_experts) text += "  - {tag: EP, modules: " + quoted_list(experts) + "}\n";
  std::vector<std::string> directives = replicates(point);
  if (point.tp > 1) {
    directives.push_back("{op: shard, filter: {}, dim: column, over: tp}");
    if (point.sequence) directives.push_back("{op: shard, filter: {}, dim: sequence, over: tp}");
    if (point.vocabulary) directives.push_back("{op: shard, filter: {}, dim: vocabulary, over: tp}");
  }
  if (divides_experts)
    directives.push_back("{op: shard, filter: {EP: \"*\"}, over: ep" +
                         (base.capacity.empty() ? "" : ", capacity: {factor: " + base.capacity + "}") + "}");
  for (std::string& line : repeats(point)) directives.push_back(std::move(line));
  if (!directives.empty()) text += "directives:\n";
  for (const std::string& directive : directives) text += "  - " + directive + "\n";
  text += "schedule: {family: " + point.family + ", microbatches: " + std::to_string(point.microbatches);
  if (point.stages_of_group > 1 && group_of_stage(point, point.pp) == 0)
    text += ", virtual: " + std::to_string(point.stages_of_group);
  return text + ", ranks: {pp: each}}\n";
}

}  // namespace piper::search
