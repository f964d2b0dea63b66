// Damages that rule 8 of the proof must find: sums hold every sample once.
#include "tests/unit/plan_damages.h"

#include <algorithm>
#include <optional>

#include "tests/unit/plan_damage_edits.h"
#include "tests/unit/plan_updates.h"

namespace piper::damages {
namespace {

using namespace plan;

bool backward_left_out(Bundle& b) { return erase_all(b, first_only<Run>(leaf_backwards(b))); }
bool backward_run_twice(Bundle& b) {
  const auto found = backwards(b);
  if (!found.empty()) insert(b, found[0], get(b, found[0]));
  return !found.empty();
}
bool reduction_left_out(Bundle& b) { return erase_all(b, first_reduction(b)); }
bool reduction_done_twice(Bundle& b) {
  const auto found = first_reduction(b);
  for (size_t k = found.size(); k-- > 0;) insert(b, found[k], get(b, found[k]));
  return !found.empty();
}
bool reduction_before_the_last_backward(Bundle& b) {
  const auto found = first_reduction(b);
  std::vector<At> moved;
  for (const At at : found) {
    const auto& data = std::get<AllReduce>(get(b, at).action).data;
    std::optional<size_t> last;
    for (const At backward : backwards(b)) {
      const auto& run = std::get<Run>(get(b, backward).action);
      const auto& arguments = b.ranks[at.rank].arguments[static_cast<size_t>(run.arguments)].arguments;
      if (backward.rank == at.rank && backward.index < at.index &&
          std::any_of(
              arguments.begin(), arguments.end(), [&](const auto& where) { return where.buffer == data.buffer; }))
        last = backward.index;
    }
    if (!last) return false;
    get(b, at).stream = b.ranks[at.rank].instructions[*last].stream;
    move_ahead(b, at, *last);
  }
  return !found.empty();
}
bool update_before_the_last_backward(Bundle& b) {
  // The last that adds to its own gradient: others may well come later.
  const auto runs = backwards(b);
  for (const At update : find<Update>(b))
    for (size_t k = runs.size(); k-- > 0;) {
      const auto& run = std::get<Run>(get(b, runs[k]).action);
      const auto& list = b.ranks[update.rank].arguments;
      const auto gradient =
          example::ranges_of(b, b.ranks[update.rank], std::get<Update>(get(b, update).action)).gradient.buffer;
      if (runs[k].rank != update.rank || runs[k].index > update.index) continue;
      const auto& arguments = list[static_cast<size_t>(run.arguments)].arguments;
      if (std::none_of(arguments.begin(), arguments.end(),
                       [&](const BufferRange& where) { return where.buffer == gradient; }))
        continue;
      move_ahead(b, update, runs[k].index);
      return true;
    }
  return false;
}
bool update_between_forward_and_backward(Bundle& b) {
  const auto updates = find<Update>(b);
  for (const At run : forwards(b))
    for (const At update : updates)
      if (update.rank == run.rank) {
        move_ahead(b, update, run.index + 1);
        return true;
      }
  return false;
}
bool microbatch_of_other_samples(Bundle& b) {
  // On all ranks alike: what one microbatch of a replica reads, another reads too.
  std::optional<std::pair<int64_t, int64_t>> from, to;
  for (auto& plan : b.ranks)
    for (auto& slice : plan.inputs) {
      if (slice.count == 0) continue;
      if (!from) from = {slice.first, slice.count};
      else if (!to && slice.count == from->second && slice.first != from->first) to = {slice.first, slice.count};
    }
  if (!to) return false;
  for (const auto& plan : b.ranks)
    for (const auto& slice : plan.inputs)
      if (slice.count != 0 && slice.count != from->second) return false;
  for (auto& plan : b.ranks)
    for (auto& slice : plan.inputs)
      if (slice.first == from->first && slice.count == from->second) slice.first = to->first;
  return std::none_of(b.ranks.begin(), b.ranks.end(), [](const RankPlan& plan) { return !plan.scalars.empty(); });
}
bool tied_gradients_not_added(Bundle& b) {
  return erase_all(
      b, find<Run>(b, [&](const RankPlan&, const Run& run) { return starts(program_of(b, run).name, "combine"); }));
}
// Each sample is in what is measured, but not all that the parts of a tied weight add.
bool measured_before_tied_gradients_are_added(Bundle& b) {
  const auto combines =
      find<Run>(b, [&](const RankPlan&, const Run& run) { return starts(program_of(b, run).name, "combine"); });
  const auto measures = find<Run>(b, [&](const RankPlan&, const Run& run) {
    const auto& calls = program_of(b, run).calls;
    return std::any_of(calls.begin(), calls.end(), [](const KernelCall& call) {
      return call.kernel == "square_sum" || call.kernel == "overflows";
    });
  });
  for (const At combine : combines)
    for (const At measure : measures)
      if (measure.rank == combine.rank && measure.index > combine.index) {
        const Instruction moved = get(b, combine);
        erase(b, combine);
        insert(b, measure, moved);
        return true;
      }
  return false;
}
bool loss_of_one_replica_reported(Bundle& b) {
  auto found = reductions_of(b, "loss");
  return erase_all(b, found);
}
bool count_of_one_replica_used(Bundle& b) { return erase_all(b, reductions_of(b, "count ")); }
bool dropped_rows_of_one_replica_reported(Bundle& b) { return erase_all(b, reductions_of(b, "dropped")); }
bool dropped_rows_not_reported(Bundle& b) {
  auto& reported = b.ranks.at(0).dropped;
  const bool any = reported.buffer >= 0;
  reported = {};
  return any;
}
bool dropped_rows_read_where_they_were_cleared(Bundle& b) {
  auto& plan = b.ranks.at(0);
  if (plan.dropped.buffer < 0) return false;
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].name == "dropped sum") plan.dropped = {static_cast<int32_t>(i), 0};
  return true;
}
bool dropped_rows_of_one_layer_not_added(Bundle& b) {
  for (auto& program : b.programs)
    for (auto& call : program.calls)
      if (call.kernel == "add_into" && call.origin == "dropped") {
        call.kernel = "copy";  // the last layer's number stands for all
        call.accumulate = false;
        undeclare_unread(program);
        return true;
      }
  return false;
}
bool norm_lacks_a_parameter(Bundle& b) {
  for (auto& program : b.programs)
    for (size_t c = 0; c < program.calls.size(); ++c)
      if (program.calls[c].kernel == "square_sum") {
        program.calls.erase(program.calls.begin() + static_cast<std::ptrdiff_t>(c));
        undeclare_unread(program);
        return true;
      }
  return false;
}
bool norm_not_summed_over_ranks(Bundle& b) { return erase_all(b, reductions_of(b, "grad norms")); }
bool squares_reported_of_something_else(Bundle& b) {
  for (RankPlan& plan : b.ranks)
    for (size_t i = 0; plan.grad_squares.buffer >= 0 && i < plan.buffers.size(); ++i)
      if (plan.buffers[i].cls == BufferClass::kGradient && static_cast<int32_t>(i) != plan.grad_squares.buffer &&
          plan.buffers[i].bytes >= plan.buffers[static_cast<size_t>(plan.grad_squares.buffer)].bytes) {
        plan.grad_squares = {static_cast<int32_t>(i), 0};
        return true;
      }
  return false;
}
bool gradient_added_to_another_parameter(Bundle& b) {
  return change_argument(b, SlotRole::kGradient,
                         [&](RankPlan& plan, const Program& program, size_t s, BufferRange& where, const Run& run) {
                           if (!adds_gradients(program)) return false;
                           auto& list = plan.arguments.edit()[static_cast<size_t>(run.arguments)].arguments;
                           for (size_t other = s + 1; other < program.slots.size(); ++other)
                             if (program.slots[other].role == SlotRole::kGradient &&
                                 program.slots[other].bytes == program.slots[s].bytes) {
                               std::swap(where, list[other]);
                               return true;
                             }
                           return false;
                         });
}
bool scattered_reduction_left_out(Bundle& b) {
  const auto found = find<ReduceScatter>(b);
  if (found.empty()) return false;
  const auto& plan = b.ranks[found[0].rank];
  const std::string data = name_of(plan, std::get<ReduceScatter>(plan.instructions[found[0].index].action).data);
  return erase_all(
      b, find<ReduceScatter>(b, [&](const RankPlan& p, const ReduceScatter& a) { return name_of(p, a.data) == data; }));
}

}  // namespace

std::vector<Damage> of_sums() {
  return {
      PIPER_DAMAGE(backward_left_out, "P0636"),
      PIPER_DAMAGE(backward_run_twice, "P0636"),
      PIPER_DAMAGE(reduction_left_out, "P0636"),
      PIPER_DAMAGE(reduction_done_twice, "P0636"),
      PIPER_DAMAGE(reduction_before_the_last_backward, "P0636"),
      PIPER_DAMAGE(update_before_the_last_backward, "P0636", "P0633", "P0638"),
      PIPER_DAMAGE(update_between_forward_and_backward, "P0636", "P0633"),
      PIPER_DAMAGE(microbatch_of_other_samples, "P0636"),
      PIPER_DAMAGE(tied_gradients_not_added, "P0636"),
      PIPER_DAMAGE(measured_before_tied_gradients_are_added, "P0636"),
      PIPER_DAMAGE(loss_of_one_replica_reported, "P0636"),
      PIPER_DAMAGE(count_of_one_replica_used, "P0636"),
      PIPER_DAMAGE(dropped_rows_of_one_replica_reported, "P0636"),
      PIPER_DAMAGE(dropped_rows_not_reported, "P0636"),
      PIPER_DAMAGE(dropped_rows_read_where_they_were_cleared, "P0636"),
      PIPER_DAMAGE(dropped_rows_of_one_layer_not_added, "P0636"),
      PIPER_DAMAGE(norm_lacks_a_parameter, "P0636"),
      PIPER_DAMAGE(norm_not_summed_over_ranks, "P0636"),
      PIPER_DAMAGE(squares_reported_of_something_else, "P0636"),
      PIPER_DAMAGE(gradient_added_to_another_parameter, "P0636"),
      PIPER_DAMAGE(scattered_reduction_left_out, "P0634", "P0636"),
  };
}

}  // namespace piper::damages
