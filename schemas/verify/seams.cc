#include "schemas/verify/seams.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "schemas/base/parallel.h"
#include "schemas/plan/actions.h"
#include "schemas/plan/like_ranks.h"
#include "schemas/plan/names.h"
#include "schemas/verify/accesses.h"
#include "schemas/verify/describe.h"
#include "schemas/verify/rules.h"

namespace piper::verify {
namespace {

using namespace plan;

Status seam_refuted(const std::string& what) { return violates(Rule::kSeams, what); }

bool may_write(BufferClass cls) { return cls == BufferClass::kArena || cls == BufferClass::kGradient; }

Status check_writes(const Bundle& evaluation, const RankPlan& plan) {
  std::vector<Access> accesses;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Action& action = plan.instructions[i].action;
    const bool updates = std::visit(
        Cases{[](const Update&) { return true; },
              [](const IsOneOf<Run, Send, Recv, AllReduce, ReduceScatter, AllGather, AllToAll, Record, Wait> auto&) {
                return false;
              }},
        action);
    if (updates) return seam_refuted(describe_instruction(evaluation, plan, i) + " updates a parameter");
    accesses.clear();
    collect_accesses(evaluation, plan, action, accesses);
    for (const Access& access : accesses) {
      const Buffer& buffer = plan.buffers[static_cast<size_t>(access.where.buffer)];
      if (access.writes && !may_write(buffer.cls))
        return seam_refuted(describe_instruction(evaluation, plan, i) + " writes " + in_quotes(buffer.name) +
                            ", a buffer of " + std::string(class_name(buffer.cls)) + "s, which only steps may change");
    }
  }
  return {};
}

class Seam {
 public:
  Seam(const RankPlan& training, const RankPlan& evaluation) : training_(training), evaluation_(evaluation) {
    for (const Buffer& buffer : training.buffers) {
      buffers_.emplace(buffer.name, &buffer);
      int64_t& end = ends_[static_cast<size_t>(buffer.cls)];
      end = std::max(end, buffer.offset + buffer.bytes);
    }
  }

  Status check() const {
    if (evaluation_.rank != training_.rank) return wrong("is of another rank");
    PIPER_RETURN_IF_ERROR(check_connections());
    for (const Buffer& buffer : evaluation_.buffers) PIPER_RETURN_IF_ERROR(check_buffer(buffer));
    for (const Placement& placement : evaluation_.placements) PIPER_RETURN_IF_ERROR(check_placement(placement));
    for (const ScalarValue& scalar : evaluation_.scalars) PIPER_RETURN_IF_ERROR(check_scalar(scalar));
    PIPER_RETURN_IF_ERROR(check_set_by_executor(evaluation_.seed_step, training_.seed_step));
    return check_set_by_executor(evaluation_.learning_rate, training_.learning_rate);
  }

 private:
  Status wrong(const std::string& what) const {
    return seam_refuted("the evaluation of rank " + std::to_string(training_.rank) + " " + what);
  }

  // What the devices have opened for the training.
  Status check_connections() const {
    const auto same_stream = [](const Stream& a, const Stream& b) { return a.name == b.name; };
    if (!std::equal(evaluation_.streams.begin(), evaluation_.streams.end(), training_.streams.begin(),
                    training_.streams.end(), same_stream))
      return wrong("has other streams than its training");
    for (const Channel& channel : evaluation_.channels)
      if (std::none_of(training_.channels.begin(), training_.channels.end(), [&](const Channel& known) {
            return std::tie(known.name, known.peer, known.id) == std::tie(channel.name, channel.peer, channel.id);
          }))
        return wrong("has the channel " + in_quotes(channel.name) + ", which its training does not have, or elsewhere");
    for (const Communicator& communicator : evaluation_.communicators)
      if (std::none_of(training_.communicators.begin(), training_.communicators.end(), [&](const Communicator& known) {
            return known.name == communicator.name && known.ranks == communicator.ranks;
          }))
        return wrong("has the communicator " + in_quotes(communicator.name) + ", which its training does not have");
    return {};
  }

  // The training's buffer of the name where both are one; null else.
  const Buffer* same(const Buffer& buffer) const {
    const auto found = buffers_.find(buffer.name);
    if (found == buffers_.end()) return nullptr;
    const Buffer& known = *found->second;
    const bool alike = std::tie(known.cls, known.bytes, known.offset, known.dtype, known.shape) ==
                       std::tie(buffer.cls, buffer.bytes, buffer.offset, buffer.dtype, buffer.shape);
    return alike ? &known : nullptr;
  }

  Status check_buffer(const Buffer& buffer) const {
    if (buffer.cls == BufferClass::kArena) return {};
    const bool behind = buffer.offset >= ends_[static_cast<size_t>(buffer.cls)];
    if (buffer.cls == BufferClass::kGradient)
      return behind ? Status() : wrong("adds up in " + in_quotes(buffer.name) + ", where the training adds up, too");
    if (same(buffer) != nullptr || (buffer.cls == BufferClass::kConstant && behind)) return {};
    return wrong("has " + in_quotes(buffer.name) + " in another place, or otherwise, than its training");
  }

  Status check_placement(const Placement& placement) const {
    const Buffer& buffer = evaluation_.buffers[static_cast<size_t>(placement.part.where.buffer)];
    if (placement.kind == PlacementKind::kConstant && same(buffer) == nullptr) return {};
    const auto equal = [&](const Placement& known) {
      return std::tie(known.name, known.kind, known.dtype, known.shape, known.part.where.offset, known.part.first,
                      known.part.count) == std::tie(placement.name, placement.kind, placement.dtype, placement.shape,
                                                    placement.part.where.offset, placement.part.first,
                                                    placement.part.count) &&
             training_.buffers[static_cast<size_t>(known.part.where.buffer)].name == buffer.name;
    };
    if (std::any_of(training_.placements.begin(), training_.placements.end(), equal)) return {};
    return wrong("has " + in_quotes(placement.name) + " in " + in_quotes(buffer.name) +
                 ", where the training does not have it");
  }

  Status check_scalar(const ScalarValue& scalar) const {
    const std::string& name = evaluation_.buffers[static_cast<size_t>(scalar.buffer)].name;
    for (const ScalarValue& known : training_.scalars)
      if (training_.buffers[static_cast<size_t>(known.buffer)].name == name && known.values == scalar.values &&
          known.holds == scalar.holds)
        return {};
    return wrong("sets " + in_quotes(name) + " to what the training does not");
  }

  // What the executor sets before each step, and before each evaluation.
  Status check_set_by_executor(const BufferRange& where, const BufferRange& training) const {
    if (where.buffer < 0) return {};
    const std::string& name = evaluation_.buffers[static_cast<size_t>(where.buffer)].name;
    const bool one = training.buffer >= 0 && training.offset == where.offset &&
                     training_.buffers[static_cast<size_t>(training.buffer)].name == name;
    return one ? Status() : wrong("sets " + in_quotes(name) + " before it runs, and its training another buffer");
  }

  const RankPlan& training_;
  const RankPlan& evaluation_;
  std::unordered_map<std::string_view, const Buffer*> buffers_;
  std::array<int64_t, kNumBufferClasses> ends_{};  // [class]
};

// Whoever evaluates on tokens takes of them what the training takes.
Status check_inputs(const Manifest& training, const Manifest& evaluation) {
  for (const InputDecl& input : evaluation.inputs) {
    const auto known = std::find_if(training.inputs.begin(), training.inputs.end(),
                                    [&](const InputDecl& other) { return other.name == input.name; });
    if (known != training.inputs.end() && known->feed != input.feed)
      return seam_refuted("the evaluation feeds another part of a token stream to input " + in_quotes(input.name) +
                          " than its training");
  }
  return {};
}

// What the evaluation reads is what the training trains.
Status check_tensors(const Manifest& training, const Manifest& evaluation) {
  const auto same = [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.name, a.dtype, a.shape, a.buffer, a.cut) == std::tie(b.name, b.dtype, b.shape, b.buffer, b.cut);
  };
  const bool tensors = std::equal(evaluation.tensors.begin(), evaluation.tensors.end(), training.tensors.begin(),
                                  training.tensors.end(), same);
  if (!tensors) return seam_refuted("the evaluation is of other tensors than its training");
  const bool cuts =
      std::equal(evaluation.cuts.begin(), evaluation.cuts.end(), training.cuts.begin(), training.cuts.end(),
                 [](const Cut& a, const Cut& b) { return a.name == b.name && a.groups == b.groups; });
  return cuts ? Status() : seam_refuted("the evaluation cuts tensors over other ranks than its training");
}

Status first_failure(std::vector<Status>& statuses) {
  for (Status& status : statuses) PIPER_RETURN_IF_ERROR(std::move(status));
  return {};
}

}  // namespace

Status check_reads_only(const Bundle& evaluation) {
  const std::vector<int32_t> like = like_ranks(evaluation);
  std::vector<Status> statuses(evaluation.ranks.size());
  parallel_for(statuses.size(), [&](size_t i) {
    if (like[i] < 0) statuses[i] = check_writes(evaluation, evaluation.ranks[i]);
  });
  return first_failure(statuses);
}

Status check_seams(const Bundle& training, const Bundle& evaluation) {
  if (!evaluation.manifest.evaluates) return seam_refuted("what should evaluate trains");
  if (training.ranks.size() != evaluation.ranks.size()) return seam_refuted("the evaluation is of other ranks");
  if (training.manifest.reporting_rank != evaluation.manifest.reporting_rank)
    return seam_refuted("the evaluation is reported by rank " + std::to_string(evaluation.manifest.reporting_rank) +
                        ", its training by rank " + std::to_string(training.manifest.reporting_rank));
  PIPER_RETURN_IF_ERROR(check_inputs(training.manifest, evaluation.manifest));
  PIPER_RETURN_IF_ERROR(check_tensors(training.manifest, evaluation.manifest));
  std::vector<Status> statuses(training.ranks.size());
  parallel_for(statuses.size(), [&](size_t i) { statuses[i] = Seam(training.ranks[i], evaluation.ranks[i]).check(); });
  return first_failure(statuses);
}

}  // namespace piper::verify
