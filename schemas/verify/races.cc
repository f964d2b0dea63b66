#include "schemas/verify/races.h"

#include <algorithm>
#include <map>

#include "schemas/plan/actions.h"
#include "schemas/plan/like_ranks.h"
#include "schemas/verify/accesses.h"
#include "schemas/verify/describe.h"
#include "schemas/verify/order.h"
#include "schemas/verify/rules.h"

namespace piper::verify {
namespace {

using namespace plan;

struct Touch {
  Moment moment;
  int32_t instruction = -1;
};
// Bytes with one history. `writer.instruction` = -1: not written in this step.
struct Segment {
  int64_t end = 0;
  Touch writer;
  int32_t buffer = -1;         // through which the last write came
  std::vector<Touch> readers;  // since the last write, the latest of each stream
};

// All parts of a collective whose own part lies among them; null: something else.
const BufferRange* in_place(const Action& action) {
  using Found = const BufferRange*;
  return std::visit(
      Cases{[](const ReduceScatter& reduce) -> Found { return reduce.out.buffer < 0 ? &reduce.data : nullptr; },
            [](const AllGather& gather) -> Found { return gather.part.buffer < 0 ? &gather.data : nullptr; },
            [](const IsOneOf<Run, Update, Send, Recv, AllReduce, AllToAll, Record, Wait> auto&) -> Found {
              return nullptr;
            }},
      action);
}

// A collective that reads one range and writes another goes on with both at one time.
bool moves_apart(const Action& action) {
  const bool moves =
      std::visit(Cases{[](const IsOneOf<ReduceScatter, AllGather, AllToAll> auto&) { return true; },
                       [](const IsOneOf<Run, Update, Send, Recv, AllReduce, Record, Wait> auto&) { return false; }},
                 action);
  return moves && in_place(action) == nullptr;
}

// Lays the arena and the persistent buffers into one line of addresses and walks the accesses in
// issue order. Looking at the last write and the reads since is enough: what came before is ordered
// before those, or was refuted there.
class RaceChecker {
 public:
  // `own`: [argument list] whether it names parts of the rank's own, which then stand for their whole buffers, as do
  // parts of collectives in place; null: everything counts as it is.
  RaceChecker(const Bundle& bundle, const RankPlan& plan, const std::vector<char>* own)
      : bundle_(bundle), plan_(&plan), clocks_(plan), own_(own) {
    int64_t next = plan.arena_bytes;
    for (const auto& buffer : plan.buffers) {
      if (buffer.cls == BufferClass::kArena) {
        base_.push_back(buffer.offset);
        continue;
      }
      base_.push_back(next);
      next += buffer.bytes;
    }
    segments_[0].end = next;
  }

  // Rule 7's overlaps in some runs of another rank that does the same work, whose buffers so lie at the same addresses.
  Status check_slots(const RankPlan& alike, const std::vector<size_t>& runs) {
    plan_ = &alike;
    std::vector<Access> accesses;
    for (const size_t run : runs) {
      accesses.clear();
      collect_accesses(bundle_, *plan_, plan_->instructions[run].action, accesses);
      PIPER_RETURN_IF_ERROR(check_slots(accesses, run));
    }
    return {};
  }

  Status check(int64_t& num_accesses) {
    std::vector<Access> accesses;
    for (size_t i = 0; i < plan_->instructions.size(); ++i) {
      const auto& instruction = plan_->instructions[i];
      const Touch touch{clocks_.advance(instruction), static_cast<int32_t>(i)};
      accesses.clear();
      collect_accesses(bundle_, *plan_, instruction.action, accesses);
      num_accesses += static_cast<int64_t>(accesses.size());
      PIPER_RETURN_IF_ERROR(check_written(accesses, i));
      if (launch_of(instruction.action).arguments >= 0 || moves_apart(instruction.action))
        PIPER_RETURN_IF_ERROR(check_slots(accesses, i));
      if (own_ != nullptr) take_parts_for_wholes(instruction.action, accesses);
      for (const auto& access : accesses)
        if (access.reads) PIPER_RETURN_IF_ERROR(read(access, touch));
      for (const auto& access : accesses)
        if (access.writes) PIPER_RETURN_IF_ERROR(write(access, touch));
    }
    return check_reported(*plan_);
  }

  // Rule 6: what the executor reads of a rank that did this work, when all streams are through, is still there.
  Status check_reported(const RankPlan& alike) const {
    for (const Access& access : reported_by(alike, bundle_.manifest)) {
      if (buffer(access).cls != BufferClass::kArena) continue;
      const int64_t from = start(access), to = from + access.bytes;
      for (auto at = std::prev(segments_.upper_bound(from)); at != segments_.end() && at->first < to; ++at) {
        const Segment& segment = at->second;
        if (segment.writer.instruction < 0)
          return violates(Rule::kContents, "nothing wrote " + in_quotes(access.where.buffer) + ", which is reported");
        if (segment.buffer != access.where.buffer)
          return violates(Rule::kContents, name(segment.writer.instruction) + " overwrote " +
                                               in_quotes(access.where.buffer) + ", which is reported, as " +
                                               in_quotes(segment.buffer));
      }
    }
    return {};
  }

 private:
  using Segments = std::map<int64_t, Segment>;

  const Buffer& buffer(const Access& access) const { return plan_->buffers[static_cast<size_t>(access.where.buffer)]; }
  int64_t start(const Access& access) const {
    return base_[static_cast<size_t>(access.where.buffer)] + access.where.offset;
  }
  std::string name(int32_t instruction) const {
    return describe_instruction(bundle_, *plan_, static_cast<size_t>(instruction));
  }
  std::string in_quotes(int32_t buffer) const { return "\"" + plan_->buffers[static_cast<size_t>(buffer)].name + "\""; }

  // Cuts so that a segment begins at `address`; the segment there.
  Segments::iterator cut(int64_t address) {
    auto found = std::prev(segments_.upper_bound(address));
    if (found->first == address || found->second.end <= address)
      return found->first == address ? found : std::next(found);
    Segment tail = found->second;
    found->second.end = address;
    return segments_.emplace_hint(std::next(found), address, std::move(tail));
  }

  // The first segment of [from, to), cut at both ends.
  Segments::iterator cut_out(int64_t from, int64_t to) {
    const auto found = std::prev(segments_.upper_bound(from));
    if (found->first == from && found->second.end == to) return found;  // nearly always
    cut(to);
    return cut(from);
  }

  Status race(const Touch& earlier, const char* did, const Touch& later, const char* does, const Access& access) const {
    return violates(Rule::kRaces, "data race on " + in_quotes(access.where.buffer) + ": nothing orders what " +
                                      name(earlier.instruction) + " " + did + " and what " + name(later.instruction) +
                                      " " + does);
  }

  // Rule 6: what no instruction of this kind may write.
  Status check_written(const std::vector<Access>& accesses, size_t instruction) const {
    const auto& action = plan_->instructions[instruction].action;
    enum class By : uint8_t { kRun, kUpdate, kTransfer };
    const By by = std::visit(
        Cases{[](const Run&) { return By::kRun; }, [](const Update&) { return By::kUpdate; },
              [](const IsTransfer auto&) { return By::kTransfer; }, [](const IsEvent auto&) { return By::kTransfer; }},
        action);
    const auto may_write = [&](BufferClass cls) {
      switch (cls) {
        case BufferClass::kArena:
        case BufferClass::kGradient: return true;
        case BufferClass::kParameter: return by != By::kRun;
        case BufferClass::kOptimizer: return by == By::kUpdate;
        case BufferClass::kState:
        case BufferClass::kTraining: return by == By::kRun;
        case BufferClass::kConstant:
        case BufferClass::kInput:
        case BufferClass::kScalar: return false;
      }
      return false;
    };
    for (const auto& access : accesses)
      if (access.writes && !may_write(buffer(access).cls))
        return violates(Rule::kContents, name(static_cast<int32_t>(instruction)) + " writes " +
                                             in_quotes(access.where.buffer) + ", which " +
                                             (by == By::kRun ? "runs" : "it may") + " only read");
    return {};
  }

  void take_parts_for_wholes(const Action& action, std::vector<Access>& accesses) const {
    if (const int32_t list = launch_of(action).arguments; list >= 0) {
      if (!(*own_)[static_cast<size_t>(list)]) return;
      for (Access& access : accesses)
        if (buffer(access).cls != BufferClass::kArena)
          access = {{access.where.buffer, 0}, buffer(access).bytes, access.reads, access.writes};
    } else if (in_place(action) != nullptr) {
      const int64_t begin = in_place(action)->offset;
      int64_t end = begin;
      for (const Access& access : accesses) end = std::max(end, access.where.offset + access.bytes);
      if (end > begin) accesses.assign(1, {*in_place(action), end - begin, true, true});
    }
  }

  // Rule 7's overlaps.
  Status check_slots(const std::vector<Access>& accesses, size_t instruction) {
    order_.assign(accesses.begin(), accesses.end());
    std::sort(order_.begin(), order_.end(), [this](const Access& a, const Access& b) { return start(a) < start(b); });
    int64_t end = -1, written_end = -1;
    const Access *last = nullptr, *last_written = nullptr;
    for (const auto& access : order_) {
      const int64_t from = start(access), to = from + access.bytes;
      const Access* other = from < written_end ? last_written : access.writes && from < end ? last : nullptr;
      if (other != nullptr)
        return violates(Rule::kPrograms, name(static_cast<int32_t>(instruction)) + ": its slots in " +
                                             in_quotes(other->where.buffer) + " and " + in_quotes(access.where.buffer) +
                                             " overlap, and one is written");
      if (to > end) {
        end = to;
        last = &access;
      }
      if (access.writes && to > written_end) {
        written_end = to;
        last_written = &access;
      }
    }
    return {};
  }

  Status read(const Access& access, const Touch& touch) {
    const int64_t from = start(access), to = from + access.bytes;
    const bool arena = buffer(access).cls == BufferClass::kArena;
    for (auto at = cut_out(from, to); at != segments_.end() && at->first < to; ++at) {
      auto& segment = at->second;
      if (segment.writer.instruction >= 0 && segment.writer.instruction != touch.instruction &&
          !clocks_.before(segment.writer.moment, touch.moment.stream))
        return race(segment.writer, "writes", touch, "reads", access);
      const bool tail = at->first > from && segment.end >= to && to - at->first < kRounding;
      if (arena && segment.writer.instruction < 0 && !tail)
        return violates(Rule::kContents, name(touch.instruction) + " reads bytes of " + in_quotes(access.where.buffer) +
                                             " that nothing wrote in this step");
      if (arena && segment.writer.instruction >= 0 && segment.buffer != access.where.buffer)
        return violates(Rule::kContents, name(touch.instruction) + " reads " + in_quotes(access.where.buffer) +
                                             ", whose bytes " + name(segment.writer.instruction) + " overwrote as " +
                                             in_quotes(segment.buffer));
      const auto same = std::find_if(segment.readers.begin(), segment.readers.end(),
                                     [&](const Touch& reader) { return reader.moment.stream == touch.moment.stream; });
      if (same != segment.readers.end()) *same = touch;
      else segment.readers.push_back(touch);
    }
    return {};
  }

  Status write(const Access& access, const Touch& touch) {
    const int64_t from = start(access), to = from + access.bytes;
    const auto first = cut_out(from, to);
    auto at = first;
    for (; at != segments_.end() && at->first < to; ++at) {
      const auto& segment = at->second;
      if (segment.writer.instruction >= 0 && segment.writer.instruction != touch.instruction &&
          !clocks_.before(segment.writer.moment, touch.moment.stream))
        return race(segment.writer, "writes", touch, "writes", access);
      for (const auto& reader : segment.readers)
        if (reader.instruction != touch.instruction && !clocks_.before(reader.moment, touch.moment.stream))
          return race(reader, "reads", touch, "writes", access);
    }
    if (first == at) return {};
    segments_.erase(std::next(first), at);
    Segment& written = first->second;
    written.end = to;
    written.writer = touch;
    written.buffer = access.where.buffer;
    written.readers.clear();
    return {};
  }

  const Bundle& bundle_;
  const RankPlan* plan_;
  VectorClocks clocks_;
  const std::vector<char>* own_;
  std::vector<int64_t> base_;  // address of each buffer
  Segments segments_;          // by first address, without gaps
  std::vector<Access> order_;
};

}  // namespace

Status check_races(const Bundle& bundle, std::span<const RankPlan* const> alike, int64_t& num_accesses) {
  const RankPlan& first = *alike[0];
  std::vector<char> own(first.arguments.size());
  bool any = false, together = true;
  for (const RankPlan* plan : alike.subspan(1))
    for (const size_t list : own_lists(*plan, first)) {
      own[list] = 1;
      any = true;
    }
  for (const Instruction& instruction : first.instructions)
    if (const BufferRange* data = in_place(instruction.action); data != nullptr && alike.size() > 1) {
      any = true;
      // What is gathered in the arena need not have been there before: of the whole, that could not be said.
      together = together && first.buffers[static_cast<size_t>(data->buffer)].cls != BufferClass::kArena;
    }
  // Ranks that do the same work report different things.
  const auto check_others = [&](RaceChecker& checked) {
    for (const RankPlan* plan : alike.subspan(1)) PIPER_RETURN_IF_ERROR(checked.check_reported(*plan));
    return Status();
  };
  if (!any) {
    RaceChecker each(bundle, first, nullptr);
    PIPER_RETURN_IF_ERROR(each.check(num_accesses));
    return check_others(each);
  }
  int64_t counted = 0;
  if (RaceChecker whole(bundle, first, &own); together && whole.check(counted).ok() && check_others(whole).ok()) {
    num_accesses += counted;
    std::vector<size_t> runs;  // that have arguments of a rank's own
    for (size_t i = 0; i < first.instructions.size(); ++i)
      if (const int32_t list = launch_of(first.instructions[i].action).arguments;
          list >= 0 && own[static_cast<size_t>(list)])
        runs.push_back(i);
    RaceChecker others(bundle, first, nullptr);
    for (const RankPlan* plan : alike.subspan(1)) PIPER_RETURN_IF_ERROR(others.check_slots(*plan, runs));
    return {};
  }
  for (const RankPlan* plan : alike) {
    counted = 0;
    PIPER_RETURN_IF_ERROR(RaceChecker(bundle, *plan, nullptr).check(counted));
  }
  num_accesses += counted;
  return {};
}

}  // namespace piper::verify
