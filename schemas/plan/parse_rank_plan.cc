#include "schemas/plan/parse_rank_plan.h"

#include <algorithm>

#include "schemas/plan/actions.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/plan/like_ranks.h"
#include "schemas/plan/rank_plan_parser.h"

namespace piper::plan {

Result<RankPlan> RankPlanReader::parse() {
  reader_.open_object();
  head_fields(*this, plan_, like_);
  if (like_ >= 0 && reader_.ok()) {
    PIPER_ASSIGN(const OtherPlan first, like_plan());
    take_work_of(first);
  }
  rest_fields(*this, plan_, first_);
  reader_.close_object();
  reader_.end_of_text();
  if (!reader_.ok()) return reader_.status();
  if (first_ == nullptr) {
    (void)plan_.instructions.edit();  // none is a list as well
    PIPER_RETURN_IF_ERROR(check_memory());
  } else if (const auto why = why_other_work(plan_, *first_); !why.empty()) {
    return reader_.failure_at(kManifest, like_at_, why);
  }
  return std::move(plan_);
}

Result<OtherPlan> RankPlanReader::like_plan() const {
  const auto bad = [this](const std::string& why) { return reader_.failure_at(kManifest, like_at_, why); };
  if (like_ >= plan_.rank) return bad("a plan can only be like that of an earlier rank");
  if (!plan_of_rank_) return bad("it is like rank " + std::to_string(like_) + ", whose plan is not at hand");
  return plan_of_rank_(like_);
}

void RankPlanReader::take_work_of(const OtherPlan& other) {
  first_ = other.plan;
  plan_.streams = first_->streams;
  plan_.events = first_->events;
  plan_.buffers = first_->buffers;
  plan_.arguments = first_->arguments;
  plan_.instructions = first_->instructions;
  if (other.buffers != nullptr) buffers_ = other.buffers;
  else buffer_index_ = index_buffers(plan_);
  find_places();
}

// Where its text has none: what the other rank keeps, which that one saves.
void RankPlanReader::own_placements(std::string_view key, RankPlan& plan, const RankPlan& like) {
  if (!reader_.optional_key(key)) {
    plan.placements = like.placements;
    for (auto& placement : plan.placements) placement.part.owner = false;
    return;
  }
  std::vector<LikePlacement> items;
  plan.placements.reserve(like.placements.size());
  read(key, items, Rule{});
}

void RankPlanReader::check(const LikePlacement& item, size_t at) {
  const bool alone = !item.first && !item.offset && !item.owner && item.skips == 0;
  if (item.whole && !alone) {
    reader_.fail(kSyntax, at, "a placement of its own is said alone");
    return;
  }
  std::optional<Placement> placement = placement_of(item, first_->placements, next_placement_);
  if (!placement) {
    reader_.fail(kName, at,
                 "rank " + std::to_string(like_) + " has no such placement: it has " +
                     std::to_string(first_->placements.size()));
    return;
  }
  if (!item.whole) check(*placement, at);
  plan_.placements.push_back(*std::move(placement));
}

// Lists of its own, which stand for those that the other rank has: as long as their runs need them.
void RankPlanReader::own_arguments(std::string_view key, RankPlan& plan, const RankPlan&) {
  if (!reader_.optional_key(key)) return;
  own_at_.resize(plan.arguments.size());
  std::vector<LikeArguments> items;
  read(key, items, Rule{});
  for (size_t i = 0; i < plan.instructions.size() && reader_.ok(); ++i) {
    const auto [program, list] = launch_of(plan.instructions[i].action);
    if (list < 0) continue;
    if (const size_t at = own_at_[static_cast<size_t>(list)]; at > 0) check_arguments(program, list, at);
  }
}

void RankPlanReader::check(const LikeArguments& item, size_t at) {
  size_t index = next_list_;  // in the other plan's order
  while (index < first_->arguments.size() && first_->arguments[index].name != item.name) ++index;
  if (index == first_->arguments.size()) {
    reader_.fail(
        kName, at,
        "there is no argument list " + in_quotes(item.name) + (next_list_ > 0 ? " after those before it" : ""));
    return;
  }
  next_list_ = index + 1;
  std::optional<ArgumentList> list = arguments_of(item, first_->arguments[index]);
  if (!list) {
    reader_.fail(kRange, at, "offsets of " + in_quotes(item.name) + " are no pairs of an argument and its bytes");
    return;
  }
  for (const BufferRange& where : list->arguments) need(where, 0, at);
  own_at_[index] = at;
  if (reader_.ok()) plan_.arguments.set_own(index, *std::move(list));
}

void RankPlanReader::find_places() {
  for (const Place& place : places_) {
    if (!reader_.ok()) return;
    const auto parts = split_offset(place.text);
    const auto found = parts ? buffers_->find(parts->name) : buffers_->end();
    if (found == buffers_->end()) {
      reader_.fail(kName, place.at, "there is no buffer " + in_quotes(place.text));
      return;
    }
    *place.where = {found->second, parts->offset};
    need(*place.where, place.bytes, place.at);
    need_multiple(*place.where, place.element, place.at);
  }
}

void RankPlanReader::offsets(std::string_view key, RankPlan& plan) {
  auto& buffers = plan.buffers.edit();
  std::vector<char> seen(buffers.size());
  reader_.key(key);
  reader_.open_object();
  std::string_view name;
  while (reader_.next_key(name)) {
    const size_t at = reader_.position();
    const int64_t offset = reader_.integer();
    const auto found = buffer_index_.find(name);
    if (found == buffer_index_.end()) {
      reader_.fail(kName, at, "an offset for " + in_quotes(name) + ", but there is no such buffer");
      return;
    }
    const auto i = static_cast<size_t>(found->second);
    if (seen[i]++) reader_.fail(kName, at, "two offsets for buffer " + in_quotes(name));
    buffers[i].offset = offset;
    if (offset < 0 || offset % buffer_alignment(DeviceKind::kCpu) != 0)
      reader_.fail(kRange, at, "the offset of buffer " + in_quotes(name) + " is not a multiple of 64 from 0 up");
    if (buffers[i].cls == BufferClass::kArena && !range_inside(offset, buffers[i].bytes, plan_.arena_bytes))
      reader_.fail(
          kRange, at,
          "buffer " + in_quotes(name) + " goes beyond the arena's " + std::to_string(plan_.arena_bytes) + " bytes");
  }
  for (size_t i = 0; i < seen.size(); ++i)
    if (!seen[i]) reader_.fail(kName, reader_.position(), "no offset for buffer " + in_quotes(buffers[i].name));
}

// Persistent buffers of a class never share bytes: they live through the whole run.
Status RankPlanReader::check_memory() {
  int64_t total = plan_.arena_bytes;
  for (size_t i = 0; i < plan_.buffers.size(); ++i)
    if (plan_.buffers[i].cls != BufferClass::kArena && __builtin_add_overflow(total, plan_.buffers[i].bytes, &total))
      return reader_.failure_at(
          kRange, buffer_at_[i],
          "the buffers up to " + in_quotes(plan_.buffers[i].name) + " are larger than any memory");
  std::vector<size_t> order;
  for (size_t i = 0; i < plan_.buffers.size(); ++i)
    if (plan_.buffers[i].cls != BufferClass::kArena && plan_.buffers[i].bytes > 0) order.push_back(i);
  const auto before = [&](size_t a, size_t b) {
    const auto &x = plan_.buffers[a], &y = plan_.buffers[b];
    return x.cls != y.cls ? x.cls < y.cls : x.offset < y.offset;
  };
  std::sort(order.begin(), order.end(), before);
  for (size_t k = 0; k < order.size(); ++k) {
    const auto& buffer = plan_.buffers[order[k]];
    int64_t end = 0;
    if (__builtin_add_overflow(buffer.offset, buffer.bytes, &end))
      return reader_.failure_at(kRange, buffer_at_[order[k]],
                                "buffer " + in_quotes(buffer.name) + " ends beyond every address");
    if (k + 1 == order.size()) break;
    const auto& next = plan_.buffers[order[k + 1]];
    if (next.cls == buffer.cls && next.offset < end)
      return reader_.failure_at(
          kRange, buffer_at_[order[k + 1]],
          "the persistent buffers " + in_quotes(buffer.name) + " and " + in_quotes(next.name) + " overlap");
  }
  return {};
}

namespace {

std::vector<int64_t> alignments_of(const Program& program) {
  std::vector<int64_t> alignments(program.slots.size() + 1, 1);
  const auto use = [&](const std::vector<Operand>& operands) {
    for (const Operand& operand : operands) {
      if (operand.slot == Operand::kAbsent) continue;
      int64_t& most =
          operand.slot == Operand::kWorkspace ? alignments.back() : alignments[static_cast<size_t>(operand.slot)];
      most = std::max(most, dtype_bytes(operand.dtype));
    }
  };
  for (const KernelCall& call : program.calls) {
    use(call.outputs);
    use(call.inputs);
  }
  return alignments;
}

}  // namespace

NameIndex index_buffers(const RankPlan& plan) {
  NameIndex index;
  index.reserve(plan.buffers.size());
  for (size_t i = 0; i < plan.buffers.size(); ++i) index.emplace(plan.buffers[i].name, static_cast<int32_t>(i));
  return index;
}

SharedNames index_names(const std::vector<ProvenanceEntry>& provenance, const std::vector<Program>& programs) {
  SharedNames names;
  for (size_t i = 0; i < provenance.size(); ++i) names.provenance.emplace(provenance[i].key, static_cast<int32_t>(i));
  for (size_t i = 0; i < programs.size(); ++i) names.programs.emplace(programs[i].name, static_cast<int32_t>(i));
  names.all_programs = &programs;
  for (const Program& program : programs) names.alignments.push_back(alignments_of(program));
  return names;
}

Result<RankPlan> parse_rank_plan(std::string_view text, const std::string& file, const SharedNames& names,
                                 const PlanOfRank& like) {
  return RankPlanReader(text, file, names, like).parse();
}

Result<RankPlan> parse_rank_plan(std::string_view text, const std::string& file,
                                 const std::vector<ProvenanceEntry>& provenance, const std::vector<Program>& programs,
                                 const PlanOfRank& like) {
  return parse_rank_plan(text, file, index_names(provenance, programs), like);
}

}  // namespace piper::plan
