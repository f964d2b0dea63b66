#include "schemas/verify/flow_kept.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "schemas/plan/names.h"
#include "schemas/verify/describe.h"

namespace piper::verify {

using namespace plan;

// What the step found and used, the next step finds too: gradients cleared, trained parameters updated.
Status Flow::Kept::check_next_step(const Rank& rank) const {
  const auto& plan = *rank.plan;
  const auto check = [&](int32_t index, int64_t begin, int64_t end, const Content& found) -> Status {
    const auto& buffer = plan.buffers[static_cast<size_t>(index)];
    Pieces left;
    rank.contents.at(index).read(begin, end, left);
    int64_t origin = found.origin;
    for (const auto& piece : left) {
      const auto& content = piece.content;
      if (found.is<Zero>() && !content.is<Zero>())
        return violates(Rule::kSums, describe_rank(plan) + " adds to " + in_quotes(buffer.name) +
                                         " from zero on, but leaves it uncleared for the next step");
      if (const auto* const parameter = found.as<Parameter>()) {
        Parameter newest = *parameter;
        newest.version = flow_.updated_.count(parameter->tensor) > 0 ? 1 : 0;
        if (content.what != Content::What(newest) || content.origin != origin)
          return violates(Rule::kUpdates, describe_rank(plan) + " reads " +
                                              in_quotes(flow_.tensors_[parameter->tensor]) + " in " +
                                              in_quotes(buffer.name) + ", but leaves elements from " +
                                              std::to_string(origin / std::max(parameter->element, 1)) +
                                              " on without their update for the next step");
      }
      origin += piece.bytes;
    }
    return {};
  };
  for (const auto& replaced : rank.contents.replaced())
    PIPER_RETURN_IF_ERROR(check(replaced.buffer, replaced.begin, replaced.end, replaced.content));
  for (const int32_t b : rank.contents.lasting())
    for (const auto& segment : rank.contents.at(b).segments())
      if (segment.content.relied) PIPER_RETURN_IF_ERROR(check(b, segment.begin, segment.end, segment.content));
  for (const auto& gradient : rank.gradients)
    if (gradient.tensor >= 0 && flow_.updated_.count(gradient.tensor) > 0 && gradient.taken != gradient.bytes)
      return violates(Rule::kUpdates, describe_rank(plan) + " places a gradient of " +
                                          in_quotes(flow_.tensors_[gradient.tensor]) + " that no update takes");
  if (flow_.scales()) {
    Pieces scale;
    const int64_t at = plan.loss_scale.offset;
    if (plan.loss_scale.buffer >= 0)
      rank.contents.at(plan.loss_scale.buffer).read(at, at + dtype_bytes(DType::kF32), scale);
    const auto* const counter = scale.empty() ? nullptr : scale[0].content.as<Counter>();
    if (counter == nullptr || *counter != Counter{Counter::Of::kLossScale, true})
      return violates(Rule::kUpdates, "the loss scale of " + describe_rank(plan) + " does not follow the step");
  }
  for (const auto& placement : plan.placements) {
    const int32_t tensor = flow_.tensors_.find(placement.name);
    const bool updated = flow_.updated_.count(tensor) > 0;
    // A tensor with an accumulator is trained.
    if (tensor >= 0 && placement.kind == PlacementKind::kGradient && !updated)
      return violates(Rule::kUpdates, describe_rank(plan) + " has a gradient of " + in_quotes(placement.name) +
                                          ", but nothing updates it");
    PIPER_RETURN_IF_ERROR(check_placed(rank, placement, tensor, updated));
  }
  return {};
}

// What training counts is counted once a step, wherever a step reads it.
Status Flow::Kept::check_counters(const Rank& rank) const {
  for (const int32_t b : rank.contents.lasting()) {
    const Buffer& buffer = rank.plan->buffers[static_cast<size_t>(b)];
    if (buffer.cls != BufferClass::kTraining) continue;
    for (const auto& segment : rank.contents.at(b).segments())
      if (const auto* const counter = segment.content.as<Counter>(); counter == nullptr || !counter->advanced)
        return violates(Rule::kUpdates, describe_rank(*rank.plan) + " keeps " + in_quotes(buffer.name) +
                                            " for training, but does not count it in a step");
  }
  return {};
}

// By which rules the loss scale goes on, all ranks alike.
Status Flow::Kept::check_loss_scales() const {
  const auto equal = [](const KernelCall& a, const KernelCall& b) {
    return std::equal(a.attrs.begin(), a.attrs.end(), b.attrs.begin(), b.attrs.end(),
                      [](const Attr& x, const Attr& y) { return x.name == y.name && x.value == y.value; });
  };
  const Program* first = nullptr;
  const KernelCall* rules = nullptr;
  for (const Program& program : flow_.bundle_.programs)
    for (const KernelCall& call : program.calls) {
      if (call.kernel != Kernel::kAdvanceLossScale) continue;
      if (first == nullptr) first = &program, rules = &call;
      if (!equal(*rules, call))
        return violates(Rule::kUpdates, "programs " + in_quotes(first->name) + " and " + in_quotes(program.name) +
                                            " bring the loss scale forward by different rules");
    }
  return {};
}

// What is placed, and so may be saved or evaluated, is after the step still of its own tensor, and the newest.
Status Flow::Kept::check_placed(const Rank& rank, const Placement& placement, int32_t tensor, bool updated) const {
  const Part& part = placement.part;
  const int64_t element = dtype_bytes(placement.dtype), begin = part.where.offset, end = begin + part.count * element;
  Content::What newest;
  switch (placement.kind) {
    case PlacementKind::kValue:
    case PlacementKind::kWorking:
    case PlacementKind::kMaster:
      newest =
          Parameter{tensor, updated ? 1 : 0, static_cast<int32_t>(element), placement.kind == PlacementKind::kMaster};
      break;
    case PlacementKind::kFirstMoment: newest = OptimizerMoment{tensor, 1, updated}; break;
    case PlacementKind::kSecondMoment: newest = OptimizerMoment{tensor, 2, updated}; break;
    case PlacementKind::kState: newest = Statistic{tensor, samples_taken(rank, tensor)}; break;
    case PlacementKind::kGradient:
    case PlacementKind::kConstant: return {};
  }
  const auto segments = rank.contents.at(part.where.buffer).segments();
  auto at = std::partition_point(segments.begin(), segments.end(), [&](const auto& s) { return s.end <= begin; });
  for (; at != segments.end() && at->begin < end; ++at) {
    const auto& segment = *at;
    const Content& content = segment.content;
    if (content.what != newest || content.origin - segment.begin != part.first * element - begin)
      return violates(Rule::kUpdates, describe_rank(*rank.plan) + " leaves something else, or old, where the " +
                                          describe_kind(placement.kind) + " of " + in_quotes(placement.name) +
                                          " is placed, in " +
                                          in_quotes(rank.plan->buffers[static_cast<size_t>(part.where.buffer)].name));
  }
  return {};
}

// The samples by which a step's runs have brought a running statistic forward on this rank, 0: none did.
int32_t Flow::Kept::samples_taken(const Rank& rank, int32_t tensor) {
  for (const int32_t b : rank.contents.lasting())
    if (rank.plan->buffers[static_cast<size_t>(b)].cls == BufferClass::kState)
      for (const auto& segment : rank.contents.at(b).segments())
        if (const auto* const found = segment.content.as<Statistic>();
            found != nullptr && found->tensor == tensor && found->samples != 0)
          return found->samples;
  return 0;
}

// Every element of what the manifest says is trained.
Status Flow::Kept::check_all_trained() const {
  const std::vector<SampleRange> updated = flow_.elements_updated();
  for (size_t t = 0; t < flow_.tensors_.size(); ++t) {
    if (!flow_.bundle_.manifest.tensors[t].trained || flow_.num_elements_[t] == 0) continue;
    const int64_t first = flow_.first_element_[t], end = first + flow_.num_elements_[t];
    auto range = std::upper_bound(updated.begin(), updated.end(), SampleRange{first, 0},
                                  [](const SampleRange& a, const SampleRange& b) { return a.first < b.first; });
    const bool begins = range != updated.begin() && std::prev(range)->first + std::prev(range)->count > first;
    const int64_t missing = begins ? std::prev(range)->first + std::prev(range)->count : first;
    if (missing < end)
      return violates(Rule::kUpdates, "nothing updates element " + std::to_string(missing - first) + " of " +
                                          in_quotes(flow_.tensors_[static_cast<int32_t>(t)]) +
                                          ", which the manifest says is trained");
  }
  return {};
}

// Running statistics that a step updates have taken every sample once, each on one of the ranks that keep some.
Status Flow::Kept::check_statistics() const {
  std::map<std::pair<int32_t, int32_t>, int32_t> sums;  // by tensor, and by the places of ranks: each has all samples
  for (const Rank& rank : flow_.ranks_)
    for (const int32_t b : rank.contents.lasting())
      for (const auto& segment : rank.contents.at(b).segments())
        if (const auto* const found = segment.content.as<Statistic>();
            found != nullptr && found->samples != 0 && segment.content.origin == 0) {
          int32_t& sum = sums[{found->tensor, rank.kept}];
          sum = flow_.ledger_.add_samples(sum, found->samples);
        }
  for (const auto& [of, sum] : sums)
    if (const std::string wrong = flow_.ledger_.lacks(sum); !wrong.empty())
      return violates(Rule::kUpdates, "the running statistic " + in_quotes(flow_.tensors_[of.first]) + " has " + wrong);
  return {};
}

// Each element of what is saved has one owner: of every tensor that is placed its weights, of those that are updated
// gradients and moments, too.
Status Flow::Kept::check_owners() const {
  struct Owned {
    PlacementKind kind;
    int32_t tensor;
    int64_t first, count;
    auto key() const { return std::tie(kind, tensor); }
  };
  std::vector<Owned> owned;
  for (const auto& rank : flow_.ranks_)
    for (const auto& placement : rank.plan->placements) {
      if (placement.kind == PlacementKind::kConstant) {
        if (placement.part.owner)
          return violates(Rule::kUpdates,
                          describe_rank(*rank.plan) + " saves the constant " + in_quotes(placement.name));
        continue;
      }
      if (placement.kind == PlacementKind::kWorking) {
        if (placement.part.owner)
          return violates(Rule::kUpdates, describe_rank(*rank.plan) + " saves the working copy of " +
                                              in_quotes(placement.name) + ", not its master");
        continue;
      }
      const int32_t tensor = flow_.tensors_.find(placement.name);
      if (tensor < 0 && placement.part.owner)
        return violates(Rule::kUpdates, describe_rank(*rank.plan) + " saves " + in_quotes(placement.name) +
                                            ", which the model does not have");
      // Nothing of a tensor is owned where it is only placed: an entry without elements stands for that.
      if (tensor >= 0)
        owned.push_back(
            {placement.kind, tensor, placement.part.first, placement.part.owner ? placement.part.count : 0});
    }
  std::sort(owned.begin(), owned.end(), [](const Owned& a, const Owned& b) {
    return std::tie(a.kind, a.tensor, a.first, a.count) < std::tie(b.kind, b.tensor, b.first, b.count);
  });
  for (size_t at = 0; at < owned.size();) {
    const Owned& all = owned[at];
    int64_t next = 0;
    const auto wrong = [&](const char* what, int64_t element) {
      const std::string kind = all.kind == PlacementKind::kValue || all.kind == PlacementKind::kState
                                   ? ""
                                   : "the " + std::string(describe_kind(all.kind)) + " of ";
      return violates(Rule::kUpdates, std::string(what) + " saves element " + std::to_string(element) + " of " + kind +
                                          in_quotes(flow_.tensors_[all.tensor]));
    };
    for (; at < owned.size() && owned[at].key() == all.key(); ++at) {
      if (owned[at].count == 0) continue;
      if (owned[at].first > next) return wrong("no rank", next);
      if (owned[at].first < next) return wrong("more than one rank", owned[at].first);
      next += owned[at].count;
    }
    if (next != flow_.num_elements_[static_cast<size_t>(all.tensor)]) return wrong("no rank", next);
  }
  return {};
}

}  // namespace piper::verify
