// What `order` directives ask for, resolved to chunks: slots that run one after the other on the devices they share. A
// pass turns them into order edges of the Dag (passes/add_order_edges.h), once there are nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/ids.h"

namespace piper::ir {

// What one filter of an order matches.
struct OrderMember {
  std::vector<ChunkId> chunks;        // ascending
  std::vector<int32_t> microbatches;  // ascending
  std::vector<Phase> phases;          // of the chunks' computes, in this order
  bool half = false;                  // names one half of a backward: a chunk without work in that half is left out
  std::string text;                   // the filter as the user wrote it, for messages
  diag::Span span;
  friend bool operator==(const OrderMember&, const OrderMember&) = default;
};
// Members of one slot overlap: their computes alternate, or run member after member where `in_sequence`.
struct OrderSlot {
  std::vector<OrderMember> members;
  bool in_sequence = false;
  friend bool operator==(const OrderSlot&, const OrderSlot&) = default;
};
// One `order` directive.
struct Order {
  std::vector<OrderSlot> slots;
  std::optional<diag::Span>
      made_at;  // of the schedule that made it; unset: the user's own, known by its filters' spans
  friend bool operator==(const Order&, const Order&) = default;
};

struct Schedule {
  std::vector<Order> orders;
  // Tags by which some filter tells chunks apart: chunks that differ in one of them cannot be joined.
  std::set<std::string> told_apart_by;

  // Members that name a chunk name all that became of it: [new chunk] -> the chunk it was cut from,
  void refine(const std::vector<ChunkId>& from);
  // [chunk] -> the joined chunk that it became part of.
  void merge(const std::vector<ChunkId>& into);
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

}  // namespace piper::ir
