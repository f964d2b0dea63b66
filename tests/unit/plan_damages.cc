#include "tests/unit/plan_damages.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "tests/unit/plan_damage_edits.h"

namespace piper::damages {
namespace {

using namespace plan;

// Calls `change` for each argument of each run that has the role, until it returns true.
bool change_argument(Bundle& bundle, SlotRole role, const std::function<bool(RankPlan&, const Program&, size_t, BufferRange&, const Run&)>& change) {
  for (auto& plan : bundle.ranks)
    for (auto& instruction : plan.instructions) {
      const auto* run = std::get_if<Run>(&instruction.action);
      if (!run) continue;
      const auto& program = program_of(bundle, *run);
      for (size_t s = 0; s < program.slots.size(); ++s)
        if (program.slots[s].role == role && change(plan, program, s, plan.arguments[static_cast<size_t>(run->arguments)].arguments[s], *run)) return true;
    }
  return false;
}

// ------------------------------------------------------------------ messages and collectives
bool message_not_received(Bundle& b) { return erase_all(b, first_only<Recv>(find<Recv>(b))); }
bool message_received_twice(Bundle& b) {
  const auto found = find<Recv>(b);
  if (!found.empty()) insert(b, found[0], get(b, found[0]));
  return !found.empty();
}
bool message_to_another_rank(Bundle& b) {
  const auto found = find<Send>(b);
  if (found.empty()) return false;
  auto& peer = std::get<Send>(get(b, found[0]).action).peer;
  for (int32_t other = 0; other < b.manifest.world_size; ++other)
    if (other != peer && other != b.ranks[found[0].rank].rank) {
      peer = other;
      return true;
    }
  return false;
}
bool message_shorter_at_one_end(Bundle& b) {
  const auto found = find<Recv>(b);
  if (!found.empty()) std::get<Recv>(get(b, found[0]).action).bytes -= 4;
  return !found.empty();
}
bool message_shorter_at_both_ends(Bundle& b) {
  for (const At at : find<Send>(b)) {
    auto& send = std::get<Send>(get(b, at).action);
    const auto& from = b.ranks[at.rank];
    const int32_t id = from.channels[static_cast<size_t>(send.channel)].id;
    const auto ends = find<Recv>(b, [&](const RankPlan& plan, const Recv& recv) {
      return plan.rank == send.peer && recv.peer == from.rank && plan.channels[static_cast<size_t>(recv.channel)].id == id;
    });
    // The first message of the channel, if it is long enough.
    auto& recv = std::get<Recv>(get(b, ends.at(0)).action);
    if (send.bytes < 128 || recv.bytes != send.bytes) continue;
    send.bytes /= 2;
    recv.bytes /= 2;
    return true;
  }
  return false;
}
bool messages_in_another_order(Bundle& b) {
  for (const At a : find<Recv>(b))
    for (const At other : find<Recv>(b)) {
      auto &first = get(b, a), &second = get(b, other);
      auto &x = std::get<Recv>(first.action), &y = std::get<Recv>(second.action);
      if (other.rank != a.rank || other.index <= a.index || x.channel != y.channel || x.bytes == y.bytes) continue;
      std::swap(first, second);
      return true;
    }
  return false;
}
bool received_before_it_can_be_sent(Bundle& b) {
  // A gradient comes back to the first stage: it cannot be the first thing that happens there.
  const auto found = find<Recv>(b, [](const RankPlan& plan, const Recv& recv) { return plan.rank == 0 && recv.peer > 0; });
  if (found.empty() || found[0].index == 0 || find<Send>(b, [](const RankPlan& plan, const Send&) { return plan.rank == 0; }).empty()) return false;
  move_ahead(b, found[0], 0);
  return true;
}
bool collective_left_out_on_one_rank(Bundle& b) { return erase_all(b, first_only<AllReduce>(reductions(b))); }
bool collective_smaller_on_one_rank(Bundle& b) {
  const auto found = reductions(b);
  if (!found.empty()) std::get<AllReduce>(get(b, found[0]).action).count -= 1;
  return !found.empty();
}
bool members_in_another_order_on_one_rank(Bundle& b) {
  const auto found = reductions(b);
  if (found.empty()) return false;
  auto& plan = b.ranks[found[0].rank];
  auto& ranks = plan.communicators[static_cast<size_t>(std::get<AllReduce>(get(b, found[0]).action).communicator)].ranks;
  std::reverse(ranks.begin(), ranks.end());
  return ranks.size() > 1;
}

// ------------------------------------------------------------------ order
bool wait_left_out(Bundle& b) {
  // In front of a message: it would leave before it is made.
  for (const At at : find<Send>(b))
    for (size_t i = at.index; i-- > 0;) {
      const auto& earlier = b.ranks[at.rank].instructions[i];
      if (earlier.stream != get(b, at).stream) continue;
      if (!std::holds_alternative<Wait>(earlier.action)) break;
      erase(b, {at.rank, i});
      return true;
    }
  return false;
}
bool record_left_out(Bundle& b) { return erase_all(b, first_only<Record>(find<Record>(b))); }
bool event_recorded_twice(Bundle& b) {
  const auto found = find<Record>(b);
  if (!found.empty()) insert(b, found[0], get(b, found[0]));
  return !found.empty();
}
bool wait_before_its_record(Bundle& b) {
  for (const At wait : find<Wait>(b))
    for (const At record : find<Record>(b, [&](const RankPlan&, const Record& r) { return r.event == std::get<Wait>(get(b, wait).action).event; }))
      if (record.rank == wait.rank && record.index < wait.index) {
        move_ahead(b, wait, record.index);
        return true;
      }
  return false;
}

// ------------------------------------------------------------------ memory
bool workspace_over_an_argument(Bundle& b) {
  for (const At at : find<Run>(b)) {
    auto& run = std::get<Run>(get(b, at).action);
    const auto& program = program_of(b, run);
    if (program.workspace_bytes == 0) continue;
    auto& plan = b.ranks[at.rank];
    for (size_t s = 0; s < program.slots.size(); ++s) {
      const auto& where = plan.arguments[static_cast<size_t>(run.arguments)].arguments[s];
      if (class_of(plan, where) != BufferClass::kArena || program.slots[s].bytes == 0) continue;
      plan.buffers[static_cast<size_t>(run.workspace.buffer)].offset = plan.buffers[static_cast<size_t>(where.buffer)].offset;
      return true;
    }
  }
  return false;
}
bool saved_values_of_two_microbatches_share_bytes(Bundle& b) {
  for (auto& plan : b.ranks) {
    std::vector<size_t> saved;
    for (size_t i = 0; i < plan.buffers.size(); ++i)
      if (plan.buffers[i].name.find(" saved m") != std::string::npos) saved.push_back(i);
    // Only where both live at the same time: the second is made before the first is read.
    const auto users = [&](size_t buffer, bool writes) {
      std::vector<size_t> found;
      for (size_t i = 0; i < plan.instructions.size(); ++i)
        if (const auto* run = std::get_if<Run>(&plan.instructions[i].action))
          for (size_t s = 0; s < program_of(b, *run).slots.size(); ++s) {
            const auto& slot = program_of(b, *run).slots[s];
            if (slot.role == SlotRole::kSaved && slot.writes == writes && plan.arguments[static_cast<size_t>(run->arguments)].arguments[s].buffer == static_cast<int32_t>(buffer))
              found.push_back(i);
          }
      return found;
    };
    for (const size_t x : saved)
      for (const size_t y : saved)
        if (x != y && plan.buffers[x].bytes == plan.buffers[y].bytes && users(x, true) < users(y, true) && users(y, true) < users(x, false)) {
          plan.buffers[y].offset = plan.buffers[x].offset;
          return true;
        }
  }
  return false;
}
bool forward_left_out(Bundle& b) { return erase_all(b, first_only<Run>(forwards(b))); }
bool program_writes_what_it_does_not_declare(Bundle& b) {
  for (auto& program : b.programs)
    if (adds_gradients(program))
      for (auto& slot : program.slots)
        if (slot.role == SlotRole::kGradient && slot.writes) {
          slot.writes = false;
          return true;
        }
  return false;
}

// ------------------------------------------------------------------ sums
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
      if (backward.rank == at.rank && backward.index < at.index && std::any_of(arguments.begin(), arguments.end(), [&](const auto& where) { return where.buffer == data.buffer; }))
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
      const auto gradient = std::get<Update>(get(b, update).action).gradient.buffer;
      if (runs[k].rank != update.rank || runs[k].index > update.index) continue;
      const auto& arguments = list[static_cast<size_t>(run.arguments)].arguments;
      if (std::none_of(arguments.begin(), arguments.end(), [&](const BufferRange& where) { return where.buffer == gradient; })) continue;
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
  return std::none_of(b.ranks.begin(), b.ranks.end(), [](const RankPlan& plan) { return std::any_of(plan.buffers.begin(), plan.buffers.end(), [](const Buffer& x) { return !x.init.empty(); }); });
}
bool tied_gradients_not_added(Bundle& b) {
  return erase_all(b, find<Run>(b, [&](const RankPlan&, const Run& run) { return starts(program_of(b, run).name, "combine"); }));
}
bool loss_of_one_replica_reported(Bundle& b) {
  auto found = reductions_of(b, "loss");
  return erase_all(b, found);
}
bool count_of_one_replica_used(Bundle& b) { return erase_all(b, reductions_of(b, "count ")); }
bool norm_lacks_a_parameter(Bundle& b) {
  for (auto& program : b.programs)
    for (size_t c = 0; c < program.calls.size(); ++c)
      if (program.calls[c].kernel == "square_sum") {
        program.calls.erase(program.calls.begin() + static_cast<std::ptrdiff_t>(c));
        return true;
      }
  return false;
}
bool norm_not_summed_over_ranks(Bundle& b) { return erase_all(b, reductions_of(b, "grad norms")); }
bool gradient_added_to_another_parameter(Bundle& b) {
  return change_argument(b, SlotRole::kGradient, [&](RankPlan& plan, const Program& program, size_t s, BufferRange& where, const Run& run) {
    if (!adds_gradients(program)) return false;
    auto& list = plan.arguments[static_cast<size_t>(run.arguments)].arguments;
    for (size_t other = s + 1; other < program.slots.size(); ++other)
      if (program.slots[other].role == SlotRole::kGradient && program.slots[other].bytes == program.slots[s].bytes) {
        std::swap(where, list[other]);
        return true;
      }
    return false;
  });
}

// ------------------------------------------------------------------ meaning
bool run_reads_another_microbatch(Bundle& b) {
  return change_argument(b, SlotRole::kInput, [](RankPlan& plan, const Program& program, size_t, BufferRange& where, const Run&) {
    if (class_of(plan, where) != BufferClass::kInput || program.name.find(".C.") != std::string::npos) return false;
    const auto here = std::find_if(plan.inputs.begin(), plan.inputs.end(), [&](const InputSlice& slice) { return slice.where.buffer == where.buffer; });
    for (const auto& slice : plan.inputs)
      if (here->count > 0 && slice.input == here->input && slice.count == here->count && slice.first != here->first) {
        where = slice.where;
        return true;
      }
    return false;
  });
}
bool run_reads_another_input(Bundle& b) {
  return change_argument(b, SlotRole::kInput, [](RankPlan& plan, const Program&, size_t, BufferRange& where, const Run&) {
    if (class_of(plan, where) != BufferClass::kInput) return false;
    for (const auto& slice : plan.inputs)
      if (slice.where.buffer != where.buffer && name_of(plan, slice.where)[0] != name_of(plan, where)[0] &&
          plan.buffers[static_cast<size_t>(slice.where.buffer)].bytes == plan.buffers[static_cast<size_t>(where.buffer)].bytes) {
        where = slice.where;
        return true;
      }
    return false;
  });
}
bool input_holds_other_samples(Bundle& b) {
  for (auto& plan : b.ranks)
    for (auto& slice : plan.inputs)
      if (slice.count > 0 && slice.count < b.manifest.batch) {
        slice.first = slice.first == 0 ? slice.count : 0;
        return true;
      }
  return false;
}
bool backward_reads_values_saved_for_another_microbatch(Bundle& b) {
  return change_argument(b, SlotRole::kSaved, [](RankPlan& plan, const Program& program, size_t s, BufferRange& where, const Run&) {
    if (!program.slots[s].reads) return false;
    for (size_t i = 0; i < plan.buffers.size(); ++i)
      if (static_cast<int32_t>(i) != where.buffer && plan.buffers[i].bytes == plan.buffers[static_cast<size_t>(where.buffer)].bytes &&
          plan.buffers[i].name.substr(0, plan.buffers[i].name.rfind(' ')) == name_of(plan, where).substr(0, name_of(plan, where).rfind(' '))) {
        where.buffer = static_cast<int32_t>(i);
        return true;
      }
    return false;
  });
}
bool run_reads_another_parameter(Bundle& b) {
  return change_argument(b, SlotRole::kParameter, [](RankPlan& plan, const Program& program, size_t s, BufferRange& where, const Run& run) {
    const auto& list = plan.arguments[static_cast<size_t>(run.arguments)].arguments;
    for (size_t other = s + 1; other < program.slots.size(); ++other)
      if (program.slots[other].role == SlotRole::kParameter && program.slots[other].bytes == program.slots[s].bytes) {
        where = list[other];
        return true;
      }
    return false;
  });
}
bool run_reads_parameters_after_their_update(Bundle& b) {
  // A forward of the first chunk once more at the end: it reads model inputs and parameters only.
  for (const At at : forwards(b)) {
    const auto& run = std::get<Run>(get(b, at).action);
    const auto& plan = b.ranks[at.rank];
    const auto& program = program_of(b, run);
    bool persistent = true;
    for (size_t s = 0; s < program.slots.size(); ++s)
      persistent = persistent && (!program.slots[s].reads || class_of(plan, plan.arguments[static_cast<size_t>(run.arguments)].arguments[s]) != BufferClass::kArena);
    const auto updates = find<Update>(b, [&](const RankPlan& p, const Update&) { return p.rank == plan.rank; });
    if (!persistent || updates.empty()) continue;
    const Instruction again = get(b, at);
    insert(b, {at.rank, plan.instructions.size()}, again);
    return true;
  }
  return false;
}
bool dropout_of_another_sample(Bundle& b) {
  for (auto& plan : b.ranks)
    for (auto& buffer : plan.buffers)
      if (starts(buffer.name, "sample_offset") && !buffer.init.empty()) {
        buffer.init[0] += 1;
        return true;
      }
  return false;
}

// ------------------------------------------------------------------ updates and saving
bool update_left_out(Bundle& b) { return erase_all(b, first_only<Update>(find<Update>(b))); }
bool update_lacks_elements(Bundle& b) {
  // All but the first: the last may be padding.
  const auto found = find<Update>(b, [](const RankPlan&, const Update& update) { return update.count > 1; });
  if (!found.empty()) std::get<Update>(get(b, found[0]).action).count = 1;
  return !found.empty();
}
bool moments_shared(Bundle& b) {
  for (const At a : find<Update>(b))
    for (const At other : find<Update>(b)) {
      auto &x = std::get<Update>(get(b, a).action), &y = std::get<Update>(get(b, other).action);
      if (a.rank != other.rank || a.index >= other.index || x.m.buffer < 0) continue;
      y.m = x.m;
      return true;
    }
  return false;
}
bool replicas_decay_differently(Bundle& b) {
  if (b.manifest.optimizer.groups.size() < 2) b.manifest.optimizer.groups.push_back({"other", 0.5});
  for (const At at : find<Update>(b)) {
    auto& update = std::get<Update>(get(b, at).action);
    const auto& plan = b.ranks[at.rank];
    const auto placed = std::find_if(plan.placements.begin(), plan.placements.end(), [&](const Placement& p) {
      return p.value.where.buffer == update.parameter.buffer && p.value.where.offset >= update.parameter.offset && p.value.where.offset < update.parameter.offset + update.count * 4;
    });
    if (placed == plan.placements.end()) continue;
    const auto elsewhere = find<Update>(b, [&](const RankPlan& p, const Update& u) {
      return p.rank != plan.rank && std::any_of(p.placements.begin(), p.placements.end(), [&](const Placement& q) {
        return q.name == placed->name && q.value.where.buffer == u.parameter.buffer && q.value.where.offset >= u.parameter.offset && q.value.where.offset < u.parameter.offset + u.count * 4;
      });
    });
    if (elsewhere.empty()) continue;
    update.group = 1 - update.group;
    return true;
  }
  return false;
}
bool gradient_not_clipped(Bundle& b) {
  const auto found = find<Update>(b, [](const RankPlan&, const Update& update) { return update.scale.buffer >= 0; });
  if (!found.empty()) std::get<Update>(get(b, found[0]).action).scale = {};
  return !found.empty();
}
bool tensor_saved_by_nobody(Bundle& b) {
  for (auto& plan : b.ranks)
    for (auto& placement : plan.placements)
      if (placement.value.owner) {
        placement.value.owner = false;
        return true;
      }
  return false;
}
bool tensor_saved_twice(Bundle& b) {
  for (auto& plan : b.ranks)
    for (auto& placement : plan.placements)
      if (!placement.value.owner && placement.gradient.where.buffer >= 0) {
        placement.value.owner = true;
        return true;
      }
  return false;
}
bool tensor_placed_elsewhere(Bundle& b) {
  for (auto& plan : b.ranks)
    for (auto& one : plan.placements)
      for (auto& two : plan.placements)
        if (one.name != two.name && one.gradient.where.buffer >= 0 && one.shape == two.shape && one.value.count == two.value.count) {
          std::swap(one.value.where, two.value.where);
          return true;
        }
  return false;
}
bool gather_left_out(Bundle& b) {
  const auto found = find<AllGather>(b);
  if (found.empty()) return false;
  const auto& plan = b.ranks[found[0].rank];
  const auto& first = std::get<AllGather>(plan.instructions[found[0].index].action);
  const std::string communicator = plan.communicators[static_cast<size_t>(first.communicator)].name, data = name_of(plan, first.data);
  return erase_all(b, find<AllGather>(b, [&](const RankPlan& p, const AllGather& a) {
    return p.communicators[static_cast<size_t>(a.communicator)].name == communicator && name_of(p, a.data) == data;
  }));
}
bool scattered_reduction_left_out(Bundle& b) {
  const auto found = find<ReduceScatter>(b);
  if (found.empty()) return false;
  const auto& plan = b.ranks[found[0].rank];
  const std::string data = name_of(plan, std::get<ReduceScatter>(plan.instructions[found[0].index].action).data);
  return erase_all(b, find<ReduceScatter>(b, [&](const RankPlan& p, const ReduceScatter& a) { return name_of(p, a.data) == data; }));
}

std::vector<At> first_exchange(const Bundle& b) {
  const auto found = find<AllToAll>(b);
  if (found.empty()) return {};
  const std::string data = name_of(b.ranks[found[0].rank], std::get<AllToAll>(b.ranks[found[0].rank].instructions[found[0].index].action).send);
  return find<AllToAll>(b, [&](const RankPlan& plan, const AllToAll& a) { return name_of(plan, a.send) == data; });
}
bool exchange_left_out(Bundle& b) { return erase_all(b, first_exchange(b)); }
bool exchange_left_out_on_one_rank(Bundle& b) { return erase_all(b, first_only<AllToAll>(first_exchange(b))); }
bool exchanged_rows_of_another_microbatch(Bundle& b) {
  // The last forward of a rank reads what an earlier one was given.
  const auto exchanges = find<AllToAll>(b);
  for (const At a : exchanges)
    for (const At other : exchanges) {
      auto &x = std::get<AllToAll>(get(b, a).action), &y = std::get<AllToAll>(get(b, other).action);
      const auto& plan = b.ranks[a.rank];
      const auto value = [](const std::string& name) { return name.substr(0, name.rfind(' ')); };
      if (a.rank != other.rank || a.index >= other.index || value(name_of(plan, x.send)) != value(name_of(plan, y.send)) || x.send.buffer == y.send.buffer) continue;
      y.send = x.send;
      return true;
    }
  return false;
}

}  // namespace

const std::vector<Damage>& all() {
#define PIPER_DAMAGE(function, ...) {#function, {__VA_ARGS__}, function}
  static const std::vector<Damage> table = {
      PIPER_DAMAGE(message_not_received, "P0631"),
      PIPER_DAMAGE(message_received_twice, "P0631"),
      PIPER_DAMAGE(message_to_another_rank, "P0631"),
      PIPER_DAMAGE(message_shorter_at_one_end, "P0631"),
      PIPER_DAMAGE(message_shorter_at_both_ends, "P0634"),
      PIPER_DAMAGE(messages_in_another_order, "P0631"),
      PIPER_DAMAGE(received_before_it_can_be_sent, "P0632"),
      PIPER_DAMAGE(collective_left_out_on_one_rank, "P0631"),
      PIPER_DAMAGE(collective_smaller_on_one_rank, "P0631"),
      PIPER_DAMAGE(members_in_another_order_on_one_rank, "P0631"),
      PIPER_DAMAGE(exchange_left_out_on_one_rank, "P0631"),
      PIPER_DAMAGE(wait_left_out, "P0633"),
      PIPER_DAMAGE(record_left_out, "P0632"),
      PIPER_DAMAGE(event_recorded_twice, "P0632"),
      PIPER_DAMAGE(wait_before_its_record, "P0632"),
      PIPER_DAMAGE(workspace_over_an_argument, "P0633", "P0634", "P0635"),
      PIPER_DAMAGE(saved_values_of_two_microbatches_share_bytes, "P0634"),
      PIPER_DAMAGE(exchange_left_out, "P0634"),
      PIPER_DAMAGE(forward_left_out, "P0634"),
      PIPER_DAMAGE(program_writes_what_it_does_not_declare, "P0635"),
      PIPER_DAMAGE(backward_left_out, "P0636"),
      PIPER_DAMAGE(backward_run_twice, "P0636"),
      PIPER_DAMAGE(reduction_left_out, "P0636"),
      PIPER_DAMAGE(reduction_done_twice, "P0636"),
      PIPER_DAMAGE(reduction_before_the_last_backward, "P0636"),
      PIPER_DAMAGE(update_before_the_last_backward, "P0636", "P0633", "P0638"),
      PIPER_DAMAGE(update_between_forward_and_backward, "P0636", "P0633"),
      PIPER_DAMAGE(microbatch_of_other_samples, "P0636"),
      PIPER_DAMAGE(tied_gradients_not_added, "P0636"),
      PIPER_DAMAGE(loss_of_one_replica_reported, "P0636"),
      PIPER_DAMAGE(count_of_one_replica_used, "P0636"),
      PIPER_DAMAGE(norm_lacks_a_parameter, "P0636"),
      PIPER_DAMAGE(norm_not_summed_over_ranks, "P0636"),
      PIPER_DAMAGE(gradient_added_to_another_parameter, "P0636"),
      PIPER_DAMAGE(scattered_reduction_left_out, "P0634", "P0636"),
      PIPER_DAMAGE(run_reads_another_microbatch, "P0637"),
      PIPER_DAMAGE(run_reads_another_input, "P0637"),
      PIPER_DAMAGE(input_holds_other_samples, "P0637", "P0636"),
      PIPER_DAMAGE(backward_reads_values_saved_for_another_microbatch, "P0637", "P0634"),
      PIPER_DAMAGE(run_reads_another_parameter, "P0637"),
      PIPER_DAMAGE(run_reads_parameters_after_their_update, "P0637", "P0633"),
      PIPER_DAMAGE(dropout_of_another_sample, "P0637"),
      PIPER_DAMAGE(exchanged_rows_of_another_microbatch, "P0637", "P0634"),
      PIPER_DAMAGE(gather_left_out, "P0634", "P0637", "P0638"),
      PIPER_DAMAGE(update_left_out, "P0636", "P0638"),
      PIPER_DAMAGE(update_lacks_elements, "P0636", "P0638"),
      PIPER_DAMAGE(moments_shared, "P0638"),
      PIPER_DAMAGE(replicas_decay_differently, "P0638"),
      PIPER_DAMAGE(gradient_not_clipped, "P0638"),
      PIPER_DAMAGE(tensor_saved_by_nobody, "P0638"),
      PIPER_DAMAGE(tensor_saved_twice, "P0638"),
      PIPER_DAMAGE(tensor_placed_elsewhere, "P0637", "P0638"),
  };
#undef PIPER_DAMAGE
  return table;
}

}  // namespace piper::damages
