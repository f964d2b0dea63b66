// Damages that rules 1 and 2 of the proof must find: both ends of messages, members of collectives.
#include "tests/unit/plan_damages.h"

#include <algorithm>

#include "tests/unit/plan_damage_edits.h"

namespace piper::damages {
namespace {

using namespace plan;

bool message_not_received(Bundle& b) { return erase_all(b, first_only<Recv>(find<Recv>(b))); }
bool message_received_twice(Bundle& b) {
  const auto found = find<Recv>(b);
  if (!found.empty()) insert(b, found[0], get(b, found[0]));
  return !found.empty();
}
bool message_to_another_rank(Bundle& b) {
  const auto found = find<Send>(b);
  if (found.empty()) return false;
  auto& peer =
      b.ranks[found[0].rank].channels[static_cast<size_t>(std::get<Send>(get(b, found[0]).action).channel)].peer;
  for (int32_t other = 0; other < b.manifest.world_size; ++other)
    if (other != peer && other != b.ranks[found[0].rank].rank) {
      peer = other;
      return true;
    }
  return false;
}
bool message_shorter_at_one_end(Bundle& b) {
  const auto found = find<Recv>(b);
  if (!found.empty()) std::get<Recv>(get(b, found[0]).action).count -= 1;
  return !found.empty();
}
bool messages_in_another_order(Bundle& b) {
  for (const At a : find<Recv>(b))
    for (const At other : find<Recv>(b)) {
      auto &first = get(b, a), &second = get(b, other);
      auto &x = std::get<Recv>(first.action), &y = std::get<Recv>(second.action);
      if (other.rank != a.rank || other.index <= a.index || x.channel != y.channel || x.count == y.count) continue;
      std::swap(first, second);
      return true;
    }
  return false;
}
bool collective_left_out_on_one_rank(Bundle& b) { return erase_all(b, first_only<AllReduce>(reductions(b))); }
bool collective_smaller_on_one_rank(Bundle& b) {
  const auto found = reductions(b);
  if (!found.empty()) std::get<AllReduce>(get(b, found[0]).action).count -= 1;
  return !found.empty();
}
bool sum_of_another_type_on_all_ranks(Bundle& b) {
  const auto found = find<AllReduce>(b);
  for (const At at : found) {
    auto& reduce = std::get<AllReduce>(get(b, at).action);
    if (reduce.types.data == DType::kF32) reduce.types = DType::kI32;
  }
  return !found.empty();
}
bool members_in_another_order_on_one_rank(Bundle& b) {
  const auto found = reductions(b);
  if (found.empty()) return false;
  auto& plan = b.ranks[found[0].rank];
  auto& ranks =
      plan.communicators[static_cast<size_t>(std::get<AllReduce>(get(b, found[0]).action).communicator)].ranks;
  std::reverse(ranks.begin(), ranks.end());
  return ranks.size() > 1;
}
bool exchange_left_out_on_one_rank(Bundle& b) { return erase_all(b, first_only<AllToAll>(first_exchange(b))); }

}  // namespace

std::vector<Damage> of_matching() {
  return {
      PIPER_DAMAGE(message_not_received, "P0631"),
      PIPER_DAMAGE(message_received_twice, "P0631"),
      PIPER_DAMAGE(message_to_another_rank, "P0631"),
      PIPER_DAMAGE(message_shorter_at_one_end, "P0631"),
      PIPER_DAMAGE(messages_in_another_order, "P0631"),
      PIPER_DAMAGE(collective_left_out_on_one_rank, "P0631"),
      PIPER_DAMAGE(collective_smaller_on_one_rank, "P0631"),
      PIPER_DAMAGE(sum_of_another_type_on_all_ranks, "P0631"),
      PIPER_DAMAGE(members_in_another_order_on_one_rank, "P0631"),
      PIPER_DAMAGE(exchange_left_out_on_one_rank, "P0631"),
  };
}

}  // namespace piper::damages
