#include "schemas/plan/like_texts.h"

#include <tuple>

namespace piper::plan {

namespace {

bool same_but_for_place(const Placement& a, const Placement& b) {
  return std::tie(a.part.where.buffer, a.part.count, a.kind, a.dtype, a.name, a.shape) ==
         std::tie(b.part.where.buffer, b.part.count, b.kind, b.dtype, b.name, b.shape);
}

template <class T>
std::optional<T> where_other(const T& own, const T& other) {
  return own == other ? std::nullopt : std::optional<T>(own);
}

}  // namespace

std::vector<LikePlacement> like_placements(const std::vector<Placement>& own, const std::vector<Placement>& others) {
  std::vector<LikePlacement> items;
  items.reserve(own.size());
  size_t next = 0;
  for (const Placement& placement : own) {
    size_t other = next;
    while (other < others.size() && !same_but_for_place(placement, others[other])) ++other;
    LikePlacement& item = items.emplace_back();
    if (other == others.size()) {
      item.whole = placement;
      continue;
    }
    const Part &here = placement.part, &there = others[other].part;
    item = {static_cast<int64_t>(other - next), where_other(here.first, there.first),
            where_other(here.where.offset, there.where.offset), where_other(here.owner, there.owner), std::nullopt};
    next = other + 1;
  }
  return items;
}

std::optional<Placement> placement_of(const LikePlacement& item, const std::vector<Placement>& others, size_t& next) {
  if (item.whole) return item.whole;
  if (item.skips < 0 || static_cast<uint64_t>(item.skips) >= others.size() - next) return std::nullopt;
  next += static_cast<size_t>(item.skips);
  Placement placement = others[next++];
  Part& part = placement.part;
  part.first = item.first.value_or(part.first);
  part.where.offset = item.offset.value_or(part.where.offset);
  part.owner = item.owner.value_or(part.owner);
  return placement;
}

LikeArguments like_arguments(const ArgumentList& own, const ArgumentList& other) {
  LikeArguments item{own.name, {}};
  for (size_t i = 0; i < own.arguments.size(); ++i)
    if (own.arguments[i].offset != other.arguments[i].offset) {
      item.offsets.push_back(static_cast<int64_t>(i));
      item.offsets.push_back(own.arguments[i].offset);
    }
  return item;
}

std::optional<ArgumentList> arguments_of(const LikeArguments& item, const ArgumentList& other) {
  ArgumentList list = other;
  if (item.offsets.size() % 2 != 0) return std::nullopt;
  for (size_t i = 0; i < item.offsets.size(); i += 2) {
    if (item.offsets[i] < 0 || static_cast<size_t>(item.offsets[i]) >= list.arguments.size()) return std::nullopt;
    list.arguments[static_cast<size_t>(item.offsets[i])].offset = item.offsets[i + 1];
  }
  return list;
}

}  // namespace piper::plan
