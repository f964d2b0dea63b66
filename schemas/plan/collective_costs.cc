#include "schemas/plan/collective_costs.h"

#include "schemas/plan/actions.h"
#include "schemas/plan/all_reduce_scratch.h"

namespace piper::plan {
namespace {

int64_t members(const RankPlan& plan, int32_t communicator) {
  return static_cast<int64_t>(plan.communicators.at(static_cast<size_t>(communicator)).ranks.size());
}

}  // namespace

int64_t sent_bytes(const RankPlan& plan, const Action& action) {
  const auto to_all_others = [&](const auto& a, int64_t bytes) { return bytes * (members(plan, a.communicator) - 1); };
  return std::visit(
      Cases{[](const Send& a) { return a.bytes(); },
            [&](const AllReduce& a) {
              return 2 * to_all_others(a, a.count * dtype_bytes(a.types.message)) / members(plan, a.communicator);
            },
            [&](const ReduceScatter& a) { return to_all_others(a, a.count * dtype_bytes(a.types.message)); },
            [&](const IsOneOf<AllGather, AllToAll> auto& a) { return to_all_others(a, a.bytes()); },
            [](const IsOneOf<Run, Update, Recv, Record, Wait> auto&) { return int64_t{0}; }},
      action);
}

int64_t collective_scratch_bytes(const RankPlan& plan, const Action& action) {
  return std::visit(
      Cases{[&](const AllReduce& a) {
              return staged_bytes(a.count, a.types) +
                     all_reduce_scratch_bytes(a.count, members(plan, a.communicator), dtype_bytes(a.types.message));
            },
            [&](const ReduceScatter& a) {
              return staged_bytes(a.count * members(plan, a.communicator), a.types) +
                     reduce_scatter_scratch_bytes(a.count, members(plan, a.communicator), dtype_bytes(a.types.message));
            },
            [](const IsOneOf<Run, Update, Send, Recv, AllGather, AllToAll, Record, Wait> auto&) { return int64_t{0}; }},
      action);
}

}  // namespace piper::plan
