// Damages that rules 3 and 4 of the proof must find: no deadlock.
#include "tests/unit/plan_damages.h"

#include "tests/unit/plan_damage_edits.h"

namespace piper::damages {
namespace {

using namespace plan;

bool received_before_it_can_be_sent(Bundle& b) {
  // A gradient comes back to the first stage: it cannot be the first thing that happens there.
  const auto found = find<Recv>(b, [](const RankPlan& plan, const Recv& recv) {
    return plan.rank == 0 && plan.channels[static_cast<size_t>(recv.channel)].peer > 0;
  });
  if (found.empty() || found[0].index == 0 ||
      find<Send>(b, [](const RankPlan& plan, const Send&) { return plan.rank == 0; }).empty())
    return false;
  move_ahead(b, found[0], 0);
  return true;
}
bool record_left_out(Bundle& b) { return erase_all(b, first_only<Record>(find<Record>(b))); }
bool event_recorded_twice(Bundle& b) {
  const auto found = find<Record>(b);
  if (!found.empty()) insert(b, found[0], get(b, found[0]));
  return !found.empty();
}
bool wait_before_its_record(Bundle& b) {
  for (const At wait : find<Wait>(b))
    for (const At record : find<Record>(
             b, [&](const RankPlan&, const Record& r) { return r.event == std::get<Wait>(get(b, wait).action).event; }))
      if (record.rank == wait.rank && record.index < wait.index) {
        move_ahead(b, wait, record.index);
        return true;
      }
  return false;
}

}  // namespace

std::vector<Damage> of_deadlock() {
  return {
      PIPER_DAMAGE(received_before_it_can_be_sent, "P0632"),
      PIPER_DAMAGE(record_left_out, "P0632"),
      PIPER_DAMAGE(event_recorded_twice, "P0632"),
      PIPER_DAMAGE(wait_before_its_record, "P0632"),
  };
}

}  // namespace piper::damages
