#include "schemas/plan/check_collectives.h"

#include <algorithm>

#include "schemas/plan/names.h"

namespace piper::plan {
namespace {

const std::vector<int32_t>& ranks(const RankPlan& plan, int32_t communicator) {
  return plan.communicators[static_cast<size_t>(communicator)].ranks;
}

// `parts` parts of `part_bytes` bytes from `where` on must lie inside the buffer.
std::string outside(const RankPlan& plan, const BufferRange& where, int64_t part_bytes, size_t parts) {
  const auto& buffer = plan.buffers[static_cast<size_t>(where.buffer)];
  int64_t bytes = 0;
  const bool fits = !__builtin_mul_overflow(part_bytes, static_cast<int64_t>(parts), &bytes) &&
                    range_inside(where.offset, bytes, buffer.bytes);
  if (fits) return "";
  return (parts == 1 ? "" : std::to_string(parts) + " parts of ") + std::to_string(part_bytes) + " bytes at " +
         std::to_string(where.offset) + " go beyond the " + std::to_string(buffer.bytes) + " bytes of buffer \"" +
         buffer.name + "\"";
}

std::string unaligned(const RankPlan& plan, const BufferRange& where, DType dtype) {
  const int64_t size = dtype_bytes(dtype);
  if (where.offset % size == 0) return "";
  return no_multiple(where.offset, size, plan.buffers[static_cast<size_t>(where.buffer)].name);
}

bool overlap(int64_t a, int64_t a_bytes, int64_t b, int64_t b_bytes) { return a < b + b_bytes && b < a + a_bytes; }

// A part that is named shares no bytes with all parts. `part_bytes` fits `parts` times into a buffer.
std::string inside(const BufferRange& part, const BufferRange& data, int64_t part_bytes, size_t parts) {
  if (part.buffer != data.buffer) return "";
  if (!overlap(part.offset, part_bytes, data.offset, part_bytes * static_cast<int64_t>(parts))) return "";
  return "a part inside all parts is not named: in place it is the rank's own";
}

std::string first_of(std::initializer_list<std::string> texts) {
  for (const auto& text : texts)
    if (!text.empty()) return text;
  return "";
}

// Bytes of one part of `count` elements; an impossible number where that overflows.
int64_t part_bytes(int64_t count, DType dtype) {
  int64_t bytes = 0;
  return __builtin_mul_overflow(count, dtype_bytes(dtype), &bytes) ? INT64_MAX : bytes;
}

}  // namespace

std::string misfit(const RankPlan& plan, const AllReduce& reduce) {
  return first_of({outside(plan, reduce.data, part_bytes(reduce.count, reduce.types.data), 1),
                   unaligned(plan, reduce.data, reduce.types.data)});
}

std::string misfit(const RankPlan& plan, const ReduceScatter& reduce) {
  const int64_t bytes = part_bytes(reduce.count, reduce.types.data);
  const size_t parts = ranks(plan, reduce.communicator).size();
  std::string text =
      first_of({outside(plan, reduce.data, bytes, parts), unaligned(plan, reduce.data, reduce.types.data)});
  if (!text.empty() || reduce.out.buffer < 0) return text;
  const auto apart = first_of({outside(plan, reduce.out, bytes, 1), unaligned(plan, reduce.out, reduce.types.data)});
  return apart.empty() ? inside(reduce.out, reduce.data, bytes, parts) : apart;
}

std::string misfit(const RankPlan& plan, const AllGather& gather) {
  const int64_t bytes = part_bytes(gather.count, gather.dtype);
  const size_t parts = ranks(plan, gather.communicator).size();
  std::string text = first_of({outside(plan, gather.data, bytes, parts), unaligned(plan, gather.data, gather.dtype)});
  if (!text.empty() || gather.part.buffer < 0) return text;
  const auto apart = first_of({outside(plan, gather.part, bytes, 1), unaligned(plan, gather.part, gather.dtype)});
  return apart.empty() ? inside(gather.part, gather.data, bytes, parts) : apart;
}

std::string misfit(const RankPlan& plan, const AllToAll& exchange) {
  const size_t members = ranks(plan, exchange.communicator).size();
  const int64_t bytes = part_bytes(exchange.count, exchange.dtype);
  auto text =
      first_of({outside(plan, exchange.send, bytes, members), outside(plan, exchange.recv, bytes, members),
                unaligned(plan, exchange.send, exchange.dtype), unaligned(plan, exchange.recv, exchange.dtype)});
  if (!text.empty()) return text;
  const int64_t all = bytes * static_cast<int64_t>(members);
  if (exchange.send.buffer == exchange.recv.buffer && overlap(exchange.send.offset, all, exchange.recv.offset, all))
    return "what it sends and where it receives overlap";
  if (exchange.send_counts.buffer < 0) return "";
  if (exchange.row == 0 || exchange.count % exchange.row != 0)
    return "rows of " + std::to_string(exchange.row) + " elements do not fill parts of " +
           std::to_string(exchange.count);
  for (const auto& counts : {exchange.send_counts, exchange.recv_counts}) {
    text = outside(plan, counts, dtype_bytes(DType::kI64), members);
    if (!text.empty()) return text;
    if (text = unaligned(plan, counts, DType::kI64); !text.empty()) return "its counts: " + text;
    if (counts.buffer == exchange.recv.buffer &&
        overlap(counts.offset, dtype_bytes(DType::kI64) * static_cast<int64_t>(members), exchange.recv.offset, all))
      return "where it receives overlaps its counts";
  }
  return "";
}

}  // namespace piper::plan
