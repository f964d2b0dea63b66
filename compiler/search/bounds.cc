#include "compiler/search/bounds.h"

#include <algorithm>
#include <cmath>

#include "compiler/search/group_times.h"
#include "compiler/search/played_table.h"
#include "compiler/strategy/families.h"

namespace piper::search {
namespace {

// Buffers of many microbatches may lie closer in a rank's memory than those of the probes, whose peak has gaps. The
// figure is measured, not derived: with 1 bounds are up to 0.9 % above the peaks of search_exhaustion_test's points on
// four ranks, with this one none is, on four or on eight.
constexpr double kPacked = 0.97;

// A stage that two groups share by microbatch is divided over both.
int32_t parts_of(const Point& point) {
  const int32_t replicas = point.parts_over > 0 ? point.parts_over : point.replicas();
  return point.family == "dualpipe" ? 2 * replicas : replicas;
}

// That each replica need not keep.
double left_out(const Point& point, const StageCost& stage) {
  int64_t divided = 0;
  if (point.divided >= Divided::kOptimizer) divided += stage.optimizer_bytes;
  if (point.divided >= Divided::kGradients) divided += stage.gradient_bytes;
  if (point.divided >= Divided::kParameters) divided += stage.parameter_bytes;
  return static_cast<double>(divided) * (1 - 1.0 / parts_of(point));
}

double persistent(const Point& point, const StageCost& stage) {
  return static_cast<double>(stage.persistent_bytes) - left_out(point, stage);
}

// The time of what takes `us` where replicas divide nothing.
double divided_us(const Point& point, double us) {
  return point.divided == Divided::kNothing ? us : us / parts_of(point);
}

// What a transfer under way takes of its ranks' devices.
double part_of_device(const timeline::Machine& machine, const SumSettings& sums) {
  if (machine.cores > 0 || machine.multiprocessors == 0) return 0;
  int64_t taken = machine.of_a_transfer;
  if (sums.max_ctas > 0) taken = std::min(taken, sums.max_ctas);
  return std::min(1.0, static_cast<double>(taken) / machine.multiprocessors);
}

// The least step of M microbatches that take `us` each, all stages together, wherever the model is cut. Evenly over R
// ranks: M us / R. Rank r of a schedule with a stage a rank and whole backwards also waits for the stages before it:
// its first forward, and after its last backward theirs. So M w(r) + w(0) + .. + w(r - 1) <= step, which is least where
// each w is (1 - 1 / M) of the one before.
double least_step(const Point& point, double us) {
  const double evenly = point.microbatches * us / point.pp;
  if (point.family != "1f1b" && point.family != "gpipe") return evenly;
  if (point.repeated != Repeated::kNothing) return evenly;  // what is repeated is done while a rank waits
  return std::max(evenly, us / (1 - std::pow(1 - 1.0 / point.microbatches, point.pp)));
}

}  // namespace

Shape Bounds::model_shape(const Point& point) const {
  Shape shape = cut_shape(point);
  // Whole kernels may be measured, and their parts not.
  if (point.tp > 1 && probes_.measured()) return shape;
  shape.tp = 1;
  shape.sequence = shape.vocabulary = false;
  shape.replicated = needs_replicas(shape, point.replicas() * point.tp);
  return shape;
}

Shape Bounds::cut_shape(const Point& point) const {
  Shape shape = shape_of(point, batch_);
  shape.stages = 1;
  shape.halves = false;
  return shape;
}

Bound Bounds::by_model(const Point& point) { return by_level(point, false); }

Bound Bounds::by_cut(const Point& point) { return by_level(point, true); }

// Some of a mixed point's stages repeat as one plain point does and the others as the other: it takes no less than the
// lesser of both.
Bound Bounds::by_level(const Point& point, bool cut) {
  Bound least;
  const std::vector<Point> plain_ones = plain_points(point);
  for (const Point& plain : plain_ones) {
    const Shape shape = cut ? cut_shape(plain) : model_shape(plain);
    const Bound bound = by_one_stage(plain, shape, shape.tp < plain.tp ? plain.tp : 1);
    if (!bound.why_not.empty()) return bound;
    if (&plain == plain_ones.data()) least = bound;
    least.step_us = std::min(least.step_us, bound.step_us);
    least.peak_bytes = std::min(least.peak_bytes, bound.peak_bytes);
  }
  return least;
}

StageCosts Bounds::stages_of(const Point& point) {
  const std::vector<Point> plain = plain_points(point);
  StageCosts costs = probes_.of(stages_shape(plain[0]));
  if (!point.mixed() || !costs.why_not.empty()) return costs;
  const StageCosts& others = probes_.of(stages_shape(plain[1]));
  if (!others.why_not.empty()) return others;
  const auto from = static_cast<ptrdiff_t>(point.stages_repeated());
  std::copy(others.stages.begin() + from, others.stages.end(), costs.stages.begin() + from);
  return costs;
}

Bound Bounds::by_one_stage(const Point& point, const Shape& shape, double places) {
  const StageCosts& costs = probes_.of(shape);
  if (!costs.why_not.empty()) return {0, 0, costs.why_not};
  const StageCost& whole = costs.stages[0];
  // Where one pass comes after the other, their exchanges count; at a border of stages those of a layer may not.
  const double work = whole.forward.work + whole.backward.work -
                      (point.vocabulary && !shape.vocabulary ? whole.in_blocks_us : 0);  // parts of logits are in none
  const double exchanges = whole.forward.alone + whole.backward.alone - whole.forward.work - whole.backward.work;
  const bool overlaps = point.family.starts_with("dualpipe"), halves = splits_backwards(point.family);
  const double inside = overlaps || halves ? 0 : std::max(0.0, 1 - static_cast<double>(point.stages()) / layers_);
  Bound bound;
  bound.step_us = least_step(point, (work + inside * exchanges) / places);
  // The mean of all ranks is no more than the most; each has its stages' part of one microbatch at least. Of schedules
  // with one stage a rank, rank r holds min(M, R - r) microbatches of it or more; the most over ranks is then no less
  // than this mean, of weights 1 / min(M, R - r).
  const double kept = persistent(point, whole), saved = static_cast<double>(whole.saved_bytes);
  double most = (kept + saved) / point.pp;
  if (point.stages_of_group == 1 && point.family != "dualpipe") {
    double weights = 0;
    for (int32_t r = 0; r < point.pp; ++r) weights += 1.0 / std::min(point.microbatches, point.pp - r);
    most = std::max(most, (saved + kept / std::min(point.microbatches, point.pp)) / weights);
  }
  bound.peak_bytes = static_cast<int64_t>(kPacked * most / places);
  return bound;
}

Bound Bounds::by_stages(const Point& point) {
  const StageCosts costs = stages_of(point);
  if (!costs.why_not.empty()) return {0, 0, costs.why_not};
  strategy::FamilyRequest request;
  request.ranks = point.pp;
  request.stages = point.stages();
  request.microbatches = point.microbatches;
  const auto table = strategy::expand_family(point.family, request);
  if (!table.ok()) return {0, 0, table.error().message};
  const PlayedTable played = play_table(*table, costs.stages);
  const GradientTimes sums = gradient_times(point, costs.stages, machine_, sums_.bytes);
  Bound bound;
  for (size_t row = 0; row < table->rows.size(); ++row) {
    double kept = 0, update = 0, once = 0, in_stages = 0, sent = 0, links = 0;
    int32_t stages = 0;
    for (size_t stage = 0; stage < costs.stages.size(); ++stage) {
      const double last = played.last_backward[row][stage];
      if (last < 0) continue;
      ++stages;
      const StageCost& own = costs.stages[stage];
      const bool once_more = stages > 1;
      kept += std::max(0.0, persistent(point, own) - (once_more ? static_cast<double>(own.tied_bytes) : 0));
      update += divided_us(point, own.update_us) *
                (once_more && own.tied_gradients > 0 ? 1 - own.tied_gradients / own.gradients : 1);
      once = std::max(once, divided_us(point, own.once_us));
      in_stages = std::max(in_stages, last + sums.after_last_us[stage]);
      const auto times = static_cast<double>(played.backwards[row][stage]);
      sent += sums.each_microbatch_us[stage] * times;
      links += sums.links_us[stage] + sums.each_links_us[stage] * times;
    }
    // Transfers and kernels share the device, whatever goes on beside what.
    const double device = played.work[row] + update + once + part_of_device(machine_, sums_) * links;
    bound.step_us = std::max({bound.step_us, played.end[row] + update + once, in_stages, sent, device});
    bound.peak_bytes = std::max(bound.peak_bytes, static_cast<int64_t>(kept + kPacked * played.most_live[row]));
  }
  return bound;
}

}  // namespace piper::search
