#include "compiler/search/group_times.h"

#include <algorithm>

#include "schemas/timeline/priced.h"

namespace piper::search {
namespace {

// Whether two groups of the pipeline, each of all replicas, sum a stage's gradients.
bool two_groups(const Point& point) { return point.family == "dualpipe" && point.parts_over == 0; }

// The first `count` replicas of a stage at its first place, in the layout of write_strategy.h. Where one group has the
// stage they are those of the first group, which begins with a node and so lies on the fewest.
std::vector<int32_t> members_of(const Point& point, int32_t stage, int32_t count) {
  const int32_t place = point.tp * point.ep;
  const int32_t of_replica = place * (point.pipeline_inside ? point.pp : 1),
                of_group = place * (point.pipeline_inside ? 1 : point.dp);
  std::vector<int32_t> groups{0};
  if (two_groups(point)) groups = {std::min(stage, point.pp - 1 - stage), std::max(stage, point.pp - 1 - stage)};
  std::vector<int32_t> members;
  for (const int32_t group : groups)
    for (int32_t i = 0; i < count; ++i) members.push_back(group * of_group + i * of_replica);
  std::sort(members.begin(), members.end());
  return members;
}

// A collective alone on the machine's links, as plans are priced.
timeline::Task task_of(const plan::Action& action, const std::vector<int32_t>& members, int32_t world,
                       const timeline::Machine& machine) {
  plan::Bundle bundle;
  bundle.manifest.world_size = world;
  bundle.manifest.target.device = machine.device;
  plan::RankPlan& plan = bundle.ranks.emplace_back();
  plan.rank = members.front();
  plan::Communicator& communicator = plan.communicators.emplace_back();
  communicator.name = "sum";
  communicator.ranks = members;
  plan.streams.emplace_back();
  plan.instructions = std::vector<plan::Instruction>{{0, action, -1}};
  const timeline::TransferEnd end{0, 0};
  return timeline::Priced(bundle, machine).transfer({&end, 1});
}

// What it takes of the links, whatever algorithm is the fastest: none has more than their whole width.
double of_links(const plan::Action& action, const std::vector<int32_t>& members, int32_t world,
                const timeline::Machine& machine) {
  timeline::Machine ring = machine;
  ring.algorithms.clear();
  return task_of(action, members, world, ring).shared;
}

}  // namespace

GradientTimes gradient_times(const Point& point, const std::vector<StageCost>& stages, const timeline::Machine& machine,
                             double bytes_of_sum) {
  const std::vector<double> none(stages.size(), 0);
  GradientTimes times{none, none, none, none};
  if (point.dp == 1 || point.ep > 1) return times;
  const int32_t of_group = point.parts_over > 0 ? point.parts_over : point.dp;
  const int32_t parts = of_group * (two_groups(point) ? 2 : 1);
  const bool each = point.divided >= Divided::kGradients;
  for (size_t s = 0; s < stages.size(); ++s) {
    const double elements = stages[s].gradients;
    if (elements <= 0) continue;
    const double own = static_cast<double>(stages[s].gradient_bytes) / elements;
    const double bytes = elements * (bytes_of_sum > 0 ? std::min(bytes_of_sum, own) : own);
    const std::vector<int32_t> members =
        members_of(point, static_cast<int32_t>(s), point.divided == Divided::kNothing ? point.dp : of_group);
    // Bytes are counted by elements of one byte.
    plan::SumTypes types(DType::kBool);
    if (point.divided == Divided::kNothing) {
      plan::AllReduce sum;
      sum.count = static_cast<int64_t>(bytes);
      sum.types = types;
      sum.communicator = 0;
      const timeline::Task task = task_of(sum, members, point.ranks(), machine);
      times.after_last_us[s] = task.fixed + task.shared;
      times.links_us[s] = of_links(sum, members, point.ranks(), machine);
      continue;
    }
    plan::ReduceScatter scatter;
    scatter.count = static_cast<int64_t>(bytes / parts);
    scatter.types = types;
    scatter.communicator = 0;
    const timeline::Task task = task_of(scatter, members, point.ranks(), machine);
    const double links = of_links(scatter, members, point.ranks(), machine);
    times.after_last_us[s] = task.fixed + task.shared;
    if (each) times.each_microbatch_us[s] = times.after_last_us[s];
    (each ? times.each_links_us : times.links_us)[s] = links;
    if (point.divided == Divided::kParameters) continue;
    // A gather of as many bytes takes as much; no element is read in fewer than two.
    scatter.count =
        static_cast<int64_t>((elements - stages[s].tied_gradients) * std::min(2.0, bytes / elements) / parts);
    const double gathered = of_links(scatter, members, point.ranks(), machine);
    times.links_us[s] += gathered;
    times.after_last_us[s] = std::max(times.after_last_us[s], links + gathered);
  }
  return times;
}

}  // namespace piper::search
