#include "schemas/digest/step_values.h"

#include <algorithm>
#include <optional>
#include <set>

#include "schemas/plan/actions.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/plan/call_origin.h"
#include "schemas/plan/names.h"
#include "schemas/plan/own_part.h"
#include "schemas/verify/describe.h"
#include "schemas/verify/match.h"

namespace piper::digest {

namespace {

using plan::BufferRange;

const std::string& buffer_name(const plan::RankPlan& plan, const BufferRange& where) {
  return plan.buffers.at(static_cast<size_t>(where.buffer)).name;
}

// What a message or a collective brings: which kind it is, where it puts it, and how much.
struct Brought {
  const char* kind = "";
  BufferRange where;
  int64_t count = 0;
  DType dtype = DType::kF32;
  bool sums = false;
};
struct BroughtBy {
  const plan::RankPlan& plan;
  int64_t members(int32_t communicator) const {
    return static_cast<int64_t>(plan.communicators.at(static_cast<size_t>(communicator)).ranks.size());
  }
  Brought operator()(const plan::Recv& a) const { return {"recv", a.data, a.count, a.dtype}; }
  Brought operator()(const plan::AllReduce& a) const { return {"all_reduce", a.data, a.count, a.types.data, true}; }
  Brought operator()(const plan::ReduceScatter& a) const {
    return {"reduce_scatter", own_part(plan, a), a.count, a.types.data, true};
  }
  Brought operator()(const plan::AllGather& a) const {
    return {"all_gather", a.data, a.count * members(a.communicator), a.dtype};
  }
  Brought operator()(const plan::AllToAll& a) const {
    return {"all_to_all", a.recv, a.count * members(a.communicator), a.dtype};
  }
  template <class Other>
  Brought operator()(const Other&) const {
    return {};
  }
};

// Calls of the same kernel for the same operator before this one.
int32_t occurrence(const plan::Program& program, size_t call) {
  int32_t count = 0;
  for (size_t i = 0; i < call; ++i)
    count +=
        program.calls[i].kernel == program.calls[call].kernel && program.calls[i].origin == program.calls[call].origin;
  return count;
}

}  // namespace

StepValues::StepValues(plan::Bundle bundle) : bundle_(std::move(bundle)) {
  std::sort(bundle_.ranks.begin(), bundle_.ranks.end(),
            [](const plan::RankPlan& a, const plan::RankPlan& b) { return a.rank < b.rank; });
}

Result<std::unique_ptr<StepValues>> StepValues::read(const std::string& directory, const std::string& digest) {
  PIPER_ASSIGN(const plan::OpenBundle opened, plan::open_bundle(directory));
  if (opened.digest != digest)
    return Status::failure("P0604", "'" + directory + "' has been written anew while the run went on");
  PIPER_ASSIGN(plan::Bundle bundle, plan::read_bundle(opened));
  return of(std::move(bundle));
}

Result<std::unique_ptr<StepValues>> StepValues::of(plan::Bundle bundle) {
  std::unique_ptr<StepValues> values(new StepValues(std::move(bundle)));
  PIPER_RETURN_IF_ERROR(values->put_in_order());
  values->find_positions();
  return values;
}

const plan::RankPlan& StepValues::plan_of(int32_t rank) const { return bundle_.ranks.at(static_cast<size_t>(rank)); }

int64_t StepValues::order(int32_t rank, int32_t instruction) const {
  return order_.at(static_cast<size_t>(rank)).at(static_cast<size_t>(instruction));
}

// Logical clocks (Lamport 1978): an instruction comes after the one before it on its rank, a receive after its send,
// a collective after what all its members did before.
Status StepValues::put_in_order() {
  PIPER_ASSIGN(const verify::Matching matching, verify::match(bundle_));
  const size_t ranks = bundle_.ranks.size();
  std::vector<size_t> next(ranks, 0);
  std::vector<int64_t> now(ranks, 0);
  for (const plan::RankPlan& plan : bundle_.ranks) order_.emplace_back(plan.instructions.size(), -1);
  // What an instruction of rank r comes after; nothing: that is not known yet.
  const auto behind = [&](size_t r) -> std::optional<int64_t> {
    const int32_t transfer = matching.transfer_of[r][next[r]];
    if (transfer < 0) return now[r];
    const bool recv = std::holds_alternative<plan::Recv>(bundle_.ranks[r].instructions[next[r]].action);
    const bool send = std::holds_alternative<plan::Send>(bundle_.ranks[r].instructions[next[r]].action);
    int64_t latest = now[r];
    const auto t = static_cast<size_t>(transfer);
    for (int64_t i = matching.first[t]; !send && i < matching.first[t + 1]; ++i) {
      const verify::Matching::Participant& one = matching.participants[static_cast<size_t>(i)];
      const auto p = static_cast<size_t>(one.plan), at = static_cast<size_t>(one.instruction);
      if (p == r) continue;
      const bool known = recv ? next[p] > at : next[p] >= at;
      if (!known) return std::nullopt;
      if (recv || at > 0) latest = std::max(latest, order_[p][recv ? at : at - 1]);
    }
    return latest;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t r = 0; r < ranks; ++r)
      for (; next[r] < order_[r].size(); ++next[r], moved = true) {
        const std::optional<int64_t> latest = behind(r);
        if (!latest) break;
        now[r] = *latest + 1;
        order_[r][next[r]] = now[r];
      }
  }
  for (size_t r = 0; r < ranks; ++r)
    if (next[r] < order_[r].size())
      return Status::failure(
          "P0632", "rank " + std::to_string(r) + " waits forever before instruction " + std::to_string(next[r]));
  return {};
}

// Replicas are in the order in which their gradients are summed; without such a sum, in the order of ranks. Ranks that
// share samples (plan::Cut) are one replica.
void StepValues::find_positions() {
  microbatches_.assign(bundle_.manifest.chunks.size(), 1);
  std::map<int32_t, std::set<int32_t>> ranks_of;
  for (const plan::RankPlan& plan : bundle_.ranks)
    for (const plan::Instruction& instruction : plan.instructions) {
      const auto* run = std::get_if<plan::Run>(&instruction.action);
      if (run == nullptr) continue;
      const auto& of = bundle_.programs.at(static_cast<size_t>(run->program)).of;
      if (!of) continue;
      ranks_of[of->chunk].insert(plan.rank);
      int64_t& microbatches = microbatches_.at(static_cast<size_t>(of->chunk));
      const int32_t microbatch = plan.arguments.at(static_cast<size_t>(run->arguments)).microbatch;
      microbatches = std::max<int64_t>(microbatches, microbatch + 1);
    }
  std::map<int32_t, int32_t> first_of_group;
  for (const plan::Cut& cut : bundle_.manifest.cuts)
    for (const std::vector<int32_t>& group : cut.groups)
      for (const int32_t rank : group) first_of_group.emplace(rank, group.front());
  for (const auto& [chunk, ranks] : ranks_of) {
    const auto replica_of = [&](int32_t rank) {
      const auto group = first_of_group.find(rank);
      return group == first_of_group.end() ? rank : group->second;
    };
    std::set<int32_t> replicas;
    for (const int32_t rank : ranks) replicas.insert(replica_of(rank));
    std::vector<int32_t> ordered(replicas.begin(), replicas.end());
    for (const plan::Communicator& communicator : plan_of(ordered.front()).communicators)
      if (std::set<int32_t>(communicator.ranks.begin(), communicator.ranks.end()) == replicas) {
        ordered = communicator.ranks;
        break;
      }
    for (const int32_t rank : ranks)
      positions_[{chunk, rank}] = std::find(ordered.begin(), ordered.end(), replica_of(rank)) - ordered.begin();
  }
}

void StepValues::name_samples(const plan::RankPlan& plan, int32_t program, int32_t arguments, ValueName& name) const {
  const plan::ArgumentList& list = plan.arguments.at(static_cast<size_t>(arguments));
  const auto& of = bundle_.programs.at(static_cast<size_t>(program)).of;
  if (!of || of->pass == plan::Pass::kCountFinish) return;  // what is done once a step has no samples
  name.chunk = bundle_.manifest.chunks.at(static_cast<size_t>(of->chunk)).name;
  name.pass = plan::pass_name(of->pass);
  for (const BufferRange& where : list.arguments)
    for (const plan::InputSlice& slice : plan.inputs)
      if (where.buffer >= 0 && slice.where.buffer == where.buffer && slice.count == of->samples) {
        name.first_sample = slice.first;
        name.samples = slice.count;
        return;
      }
  const int64_t of_microbatch = bundle_.manifest.batch / microbatches_.at(static_cast<size_t>(of->chunk));
  name.first_sample =
      std::max(list.microbatch, 0) * of_microbatch + positions_.at({of->chunk, plan.rank}) * of->samples;
  name.samples = of->samples;
}

// The tensors of the model that lie in a range.
std::string StepValues::tensors_of(const plan::RankPlan& plan, const BufferRange& where, int64_t bytes) const {
  constexpr int kShown = 3;
  std::string text;
  int found = 0;
  for (const plan::Placement& placement : plan.placements) {
    const BufferRange& at = placement.part.where;
    if (at.buffer != where.buffer || at.offset >= where.offset + bytes ||
        at.offset + placement.part.count * dtype_bytes(placement.dtype) <= where.offset)
      continue;
    if (++found <= kShown) text += (text.empty() ? "" : ", ") + placement.name;
  }
  if (found > kShown) text += " and " + std::to_string(found - kShown) + " more";
  return text;
}

void StepValues::name_call(const plan::RankPlan& plan, int32_t program, int32_t arguments, const ValuePlace& place,
                           ValueName& name) const {
  const plan::Program& calls = bundle_.programs.at(static_cast<size_t>(program));
  const plan::KernelCall& call = calls.calls.at(static_cast<size_t>(place.call));
  const plan::Operand& operand = call.outputs.at(static_cast<size_t>(place.output));
  const plan::CallOrigin origin = plan::split_call_origin(call.origin);
  name.value = origin.model_operator;
  name.line = origin.line;
  name.kernel = call.kernel.text();
  name.nth = occurrence(calls, static_cast<size_t>(place.call));
  name.sums = call.accumulate;
  name.dtype = operand.dtype;
  name.shape = operand.shape;
  name_samples(plan, program, arguments, name);
  if (!name.chunk.empty() || operand.slot < 0) return;
  // Work of the whole step is told apart by what it is done to.
  const plan::Slot& slot = calls.slots.at(static_cast<size_t>(operand.slot));
  const BufferRange& where =
      plan.arguments.at(static_cast<size_t>(arguments)).arguments.at(static_cast<size_t>(operand.slot));
  const std::string tensors = tensors_of(plan, where, slot.bytes);
  name.value += ": " + slot.name + (tensors.empty() ? "" : " of " + tensors);
}

ValueName StepValues::name(int32_t rank, const ValuePlace& place) const {
  const plan::RankPlan& plan = plan_of(rank);
  const plan::Instruction& instruction = plan.instructions.at(static_cast<size_t>(place.instruction));
  ValueName name;
  name.rank = rank;
  name.instruction = place.instruction;
  name.call = place.call;
  name.output = place.output;
  if (instruction.provenance >= 0) name.at = bundle_.provenance.at(static_cast<size_t>(instruction.provenance)).key;
  if (const auto [program, arguments] = plan::launch_of(instruction.action); program >= 0) {
    name_call(plan, program, arguments, place, name);
  } else {
    const Brought brought = std::visit(BroughtBy{plan}, instruction.action);
    name.value = buffer_name(plan, brought.where);
    name.kernel = brought.kind;
    name.sums = brought.sums;
    name.dtype = brought.dtype;
    name.shape = {brought.count};
  }
  return name;
}

std::string StepValues::describe(int32_t rank, const ValuePlace& place) const {
  const ValueName value = name(rank, place);
  std::string text = verify::describe_instruction(bundle_, plan_of(rank), static_cast<size_t>(place.instruction));
  if (place.call < 0) return text;
  text += ", call " + std::to_string(place.call) + ": kernel " + value.kernel + " of " + value.value;
  if (!value.line.empty()) text += std::string(plan::kAtLine) + value.line;
  if (value.samples > 0)
    text += ", samples " + std::to_string(value.first_sample) + " to " +
            std::to_string(value.first_sample + value.samples - 1) + " of the step";
  return text;
}

}  // namespace piper::digest
