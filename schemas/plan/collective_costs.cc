#include "schemas/plan/collective_costs.h"

#include "schemas/plan/all_reduce_scratch.h"

namespace piper::plan {
namespace {

int64_t members(const RankPlan& plan, int32_t communicator) {
  return static_cast<int64_t>(plan.communicators.at(static_cast<size_t>(communicator)).ranks.size());
}

}  // namespace

int64_t sent_bytes(const RankPlan& plan, const Action& action) {
  if (const auto* a = std::get_if<Send>(&action)) return a->bytes();
  if (const auto* a = std::get_if<AllReduce>(&action)) {
    const int64_t n = members(plan, a->communicator);
    return 2 * a->count * dtype_bytes(a->types.message) * (n - 1) / n;
  }
  if (const auto* a = std::get_if<ReduceScatter>(&action))
    return a->count * dtype_bytes(a->types.message) * (members(plan, a->communicator) - 1);
  if (const auto* a = std::get_if<AllGather>(&action)) return a->bytes() * (members(plan, a->communicator) - 1);
  if (const auto* a = std::get_if<AllToAll>(&action)) return a->bytes() * (members(plan, a->communicator) - 1);
  return 0;
}

int64_t collective_scratch_bytes(const RankPlan& plan, const Action& action) {
  if (const auto* a = std::get_if<AllReduce>(&action))
    return staged_bytes(a->count, a->types) +
           all_reduce_scratch_bytes(a->count, members(plan, a->communicator), dtype_bytes(a->types.message));
  if (const auto* a = std::get_if<ReduceScatter>(&action))
    return staged_bytes(a->count * members(plan, a->communicator), a->types) +
           reduce_scatter_scratch_bytes(a->count, members(plan, a->communicator), dtype_bytes(a->types.message));
  return 0;
}

}  // namespace piper::plan
