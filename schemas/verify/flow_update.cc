// Updates: a complete gradient of the very elements, the same way on every rank that holds a copy.
#include <algorithm>
#include <tuple>
#include <utility>

#include "schemas/plan/kernels.h"
#include "schemas/plan/names.h"
#include "schemas/plan/optimizers.h"
#include "schemas/verify/flow.h"

namespace piper::verify {

using namespace plan;

namespace {

// Elements side by side, in as many axes as the optimizer takes.
bool is_update_range(const Operand& operand, bool matrix) {
  if (operand.slot < 0 || operand.strides.size() != operand.shape.size()) return false;
  if (matrix ? operand.shape.size() != 2 : operand.shape.size() > 1) return false;
  const std::vector<int64_t> dense = contiguous_strides(operand.shape);
  for (size_t axis = 0; axis < operand.shape.size(); ++axis)
    if (operand.shape[axis] > 1 && operand.strides[axis] != dense[axis]) return false;
  return true;
}

}  // namespace

struct Flow::Updating {
  BufferRange parameter, gradient, rate, step;
  BufferRange scale, overflow, working;  // buffer = -1 where there is none
  std::vector<BufferRange> moments;
  DType type = DType::kF32, working_type = DType::kF32;
  int64_t bytes = 0;            // of the parameter
  std::vector<int64_t> matrix;  // its shape, where the optimizer takes one whole; else empty
  int64_t element() const { return dtype_bytes(type); }
};

Result<Flow::Updating> Flow::bind_update(Rank& rank, const KernelCall& call, int32_t group,
                                         const std::vector<BufferRange>& arguments) const {
  const auto& optimizer = bundle_.manifest.optimizer;
  if (group < 0 || static_cast<size_t>(group) >= optimizer.groups.size())
    return refuted(Rule::kUpdates, rank, "updates a group that the optimizer does not have");
  const GroupUpdate by = group_update(optimizer, group);
  const std::string& kind = by.numbers.kind;
  if (call.kernel != by.info->kernel)
    return refuted(Rule::kUpdates, rank, "calls " + call.kernel.text() + ", the optimizer is " + kind);
  const auto num_moments = static_cast<size_t>(by.num_moments());
  const size_t most = static_cast<size_t>(find_kernel(call.kernel)->outputs);
  const bool copies = call.outputs.size() == most;  // a working copy is the last
  const size_t states = copies ? most - 1 : call.outputs.size();
  std::vector<Operand> outputs(call.outputs.begin(), call.outputs.begin() + static_cast<std::ptrdiff_t>(states));
  if (copies)
    while (!outputs.empty() && outputs.back().slot == Operand::kAbsent) outputs.pop_back();
  if (outputs.size() != 2 + num_moments)
    return refuted(Rule::kUpdates, rank, "its moments are not those of the optimizer " + kind);
  const bool clips = bundle_.manifest.clip_grad_norm > 0;
  if (call.inputs.size() != (scales() ? 4u : clips ? 3u : 2u))
    return refuted(Rule::kUpdates, rank,
                   scales() ? "does not unscale the gradient, or does not skip a step with an overflow"
                   : clips  ? "does not clip the gradient"
                            : "scales the gradient, though nothing is clipped");
  const auto place = [&](const Operand& operand) {
    BufferRange where = arguments[static_cast<size_t>(operand.slot)];
    where.offset += operand.offset;
    return where;
  };
  Updating bound;
  for (const std::vector<Operand>* operands : {&std::as_const(outputs), &call.inputs})
    for (const Operand& operand : *operands) {
      if (!is_update_range(operand, by.info->of_matrices && operands == &outputs))
        return refuted(Rule::kUpdates, rank, "has an operand that is no range of elements");
    }
  static constexpr DType kValueTypes[] = {DType::kF64, DType::kI64, DType::kF32,
                                          DType::kF32};  // rate, step, factor, overflow
  for (size_t i = 0; i < call.inputs.size(); ++i)
    if (call.inputs[i].dtype != kValueTypes[i] || elements(call.inputs[i]) != 1)
      return refuted(Rule::kUpdates, rank, "has operands of different sizes or types");
  bound.bytes = dense_bytes(outputs[0]);
  bound.type = outputs[0].dtype;
  if (by.info->of_matrices) bound.matrix = outputs[0].shape;
  for (const Operand& output : outputs)
    if (output.shape != outputs[0].shape || output.dtype != bound.type)
      return refuted(Rule::kUpdates, rank, "has operands of different sizes or types");
  if (copies) {
    const Operand& copy = call.outputs.back();
    if (!is_update_range(copy, by.info->of_matrices) || copy.shape != outputs[0].shape || copy.dtype == bound.type)
      return refuted(Rule::kUpdates, rank, "writes a working copy of another size, or of the same type");
    bound.working = place(copy);
    bound.working_type = copy.dtype;
  }
  bound.parameter = place(outputs[0]);
  bound.gradient = place(outputs[1]);
  for (size_t i = 2; i < outputs.size(); ++i) bound.moments.push_back(place(outputs[i]));
  bound.rate = place(call.inputs[0]);
  bound.step = place(call.inputs[1]);
  if (clips || scales()) bound.scale = place(call.inputs[2]);
  if (scales()) bound.overflow = place(call.inputs[3]);
  return bound;
}

// An update of a matrix makes each element of all elements of the gradient.
Status Flow::check_whole_matrix(Rank& rank, const Updating& call, const Pieces& parameter) {
  int64_t origin = 0;
  const auto* const first = parameter.empty() ? nullptr : parameter[0].content.as<Parameter>();
  for (const auto& piece : parameter) {
    const auto* const of = piece.content.as<Parameter>();
    if (of == nullptr || of->tensor != first->tensor || piece.content.origin != origin)
      return refuted(Rule::kMatrices, rank,
                     "updates as a whole matrix what is " +
                         (of == nullptr ? std::string("no parameter")
                                        : "elements of " + in_quotes(tensors_[of->tensor]) + " from " +
                                              std::to_string(piece.content.origin / call.element()) + " on"));
    origin += piece.bytes;
  }
  if (first == nullptr) return {};
  const auto& shape = bundle_.manifest.tensors[static_cast<size_t>(first->tensor)].shape;
  if (shape == call.matrix) return {};
  return refuted(
      Rule::kMatrices, rank,
      "updates " + in_quotes(tensors_[first->tensor]) + " as a matrix of another shape than the manifest says");
}

// The moments of bytes [done, done + bytes) of the update, which are of this parameter or, without one, of nothing.
Status Flow::check_moments(Rank& rank, const Updating& call, int32_t tensor, int64_t origin, int64_t done,
                           int64_t bytes) {
  for (size_t i = 0; i < call.moments.size(); ++i) {
    const BufferRange& where = call.moments[i];
    Pieces found;
    rank.contents.take({where.buffer, where.offset + done}, bytes, found);
    PIPER_RETURN_IF_ERROR(check_elements(rank, found, call.type));
    int64_t expected = origin;
    for (const auto& piece : found) {
      const auto* const moment = piece.content.as<OptimizerMoment>();
      const bool right = tensor < 0 ? piece.content.is<Nothing>()
                                    : moment != nullptr && moment->number == static_cast<int32_t>(i) + 1 &&
                                          moment->tensor == tensor && piece.content.origin == expected;
      if (!right)
        return refuted(Rule::kUpdates, rank,
                       "keeps moments of \"" + (tensor < 0 ? "" : tensors_[tensor]) + "\" in \"" +
                           rank.plan->buffers[static_cast<size_t>(where.buffer)].name +
                           "\", where they are not placed");
      expected += piece.bytes;
    }
    if (tensor < 0) continue;
    for (auto& segment : rank.contents.buffer(where.buffer).cut(where.offset + done, where.offset + done + bytes))
      std::get<OptimizerMoment>(segment.content.what).updated = true;
  }
  return {};
}

// Whether the gradient's placements, which are what is saved of it, say this of the range; it counts as taken.
bool Flow::takes_placed_gradient(Rank& rank, const BufferRange& where, int64_t bytes, int32_t tensor, int64_t origin) {
  auto& placed = rank.gradients;
  auto at = std::upper_bound(placed.begin(), placed.end(), where, [](const BufferRange& w, const PlacedGradient& p) {
    return std::tie(w.buffer, w.offset) < std::tie(p.where.buffer, p.where.offset);
  });
  if (at == placed.begin()) return false;
  --at;
  const int64_t behind = where.offset - at->where.offset;
  if (at->where.buffer != where.buffer || at->tensor != tensor || behind + bytes > at->bytes ||
      at->origin + behind != origin)
    return false;
  at->taken += bytes;
  return true;
}

// The copy of each updated element of a master is of the same element, as programs of the step have read it.
Status Flow::write_working(Rank& rank, const Updating& call, const Pieces& updated) {
  const int64_t narrow = dtype_bytes(call.working_type), wide = call.element();
  Pieces copies, found;
  int64_t done = 0;  // bytes of the copy
  for (const auto& piece : updated) {
    Content copy = piece.content;
    const int64_t bytes = piece.bytes / wide * narrow;
    auto* const parameter = copy.as<Parameter>();  // none: nothing is updated there
    if (parameter != nullptr) parameter->master = false, parameter->element = static_cast<int32_t>(narrow);
    copy.origin = copy.origin / wide * narrow;
    copy.layout = layout_of(call.working_type);
    found.clear();
    rank.contents.take({call.working.buffer, call.working.offset + done}, bytes, found);
    int64_t origin = copy.origin;
    for (const auto& before : found) {
      const auto* const old = before.content.as<Parameter>();
      const bool right = parameter == nullptr
                             ? before.content.is<Nothing>()
                             : old != nullptr &&
                                   *old == Parameter{.tensor = parameter->tensor, .element = parameter->element} &&
                                   before.content.origin == origin &&
                                   working_types_[static_cast<size_t>(parameter->tensor)] == call.working_type;
      if (!right)
        return refuted(Rule::kUpdates, rank,
                       "writes the working copy of \"" + (parameter != nullptr ? tensors_[parameter->tensor] : "") +
                           "\" where it is not placed");
      origin += before.bytes;
    }
    append(copies, {bytes, copy});
    done += bytes;
  }
  rank.contents.put(call.working, copies);
  return {};
}

Status Flow::update(Rank& rank, const Update& update) {
  const auto& program = bundle_.programs[static_cast<size_t>(update.program)];
  const auto& arguments = rank.plan->arguments[static_cast<size_t>(update.arguments)].arguments;
  for (const auto& call : program.calls) {
    PIPER_ASSIGN(const Updating bound, bind_update(rank, call, update.group, arguments));
    PIPER_RETURN_IF_ERROR(this->update(rank, bound, update.group));
  }
  return {};
}

Status Flow::update(Rank& rank, const Updating& call, int32_t group) {
  const auto r = static_cast<size_t>(&rank - ranks_.data());
  scratch_.clear();
  scratch_more_.clear();
  rank.contents.take(call.parameter, call.bytes, scratch_);
  rank.contents.take(call.gradient, call.bytes, scratch_more_);
  for (const Pieces* pieces : {&scratch_, &scratch_more_})
    PIPER_RETURN_IF_ERROR(check_elements(rank, *pieces, call.type));
  if (!call.matrix.empty()) PIPER_RETURN_IF_ERROR(check_whole_matrix(rank, call, scratch_));
  Pieces updated;
  size_t i = 0, j = 0;
  int64_t done = 0;
  for (int64_t in_a = 0, in_b = 0; i < scratch_.size() && j < scratch_more_.size();) {
    Content content = scratch_[i].content;
    content.origin += in_a;
    const Content& added = scratch_more_[j].content;
    const int64_t added_origin = added.origin + in_b;
    auto* const parameter = content.as<Parameter>();
    const int64_t length = std::min(scratch_[i].bytes - in_a, scratch_more_[j].bytes - in_b);
    if (parameter != nullptr) {
      const std::string name = "\"" + tensors_[parameter->tensor] + "\"";
      const TensorInfo& tensor = bundle_.manifest.tensors[static_cast<size_t>(parameter->tensor)];
      if (tensor.dtype != call.type)
        return refuted(Rule::kUpdates, rank, "updates " + name + " as elements of another type");
      if (parameter->master != (call.working.buffer >= 0))
        return refuted(Rule::kUpdates, rank,
                       parameter->master ? "updates the master of " + name + " without its working copy"
                                         : "writes a copy of " + name + ", which programs read itself");
      const auto* const gradient = added.as<Sum>();
      if (gradient == nullptr) return refuted(Rule::kSums, rank, "updates " + name + " without a gradient");
      std::vector<int32_t> addends;
      for (const auto& term : ledger_.terms(*gradient)) {
        const auto& addend = ledger_.addends[term.first];
        if (addend.tensor != parameter->tensor || added_origin != content.origin)
          return refuted(Rule::kSums, rank,
                         "updates elements from " + std::to_string(content.origin / call.element()) + " of " + name +
                             " by what " + addend.chunk + " adds to elements from " +
                             std::to_string(added_origin / call.element()) + " of \"" + addend.slot + "\"");
        addends.push_back(term.first);
      }
      if (const auto wrong = ledger_.use(*gradient); !wrong.empty())
        return refuted(Rule::kSums, rank, "updates " + name + " by a gradient with " + wrong);
      if (parameter->version != 0) return refuted(Rule::kUpdates, rank, "updates " + name + " a second time");
      if (!tensor.trained) return refuted(Rule::kUpdates, rank, "updates " + name + ", which is not trained");
      if (group != tensor.group)
        return refuted(Rule::kUpdates, rank,
                       "updates " + name + " in another group of the optimizer than the manifest says");
      const auto [it, fresh] =
          updated_.emplace(parameter->tensor, TakenGradient{addends, {r, static_cast<int32_t>(rank.next)}});
      if (!fresh && it->second.addends != addends)
        return refuted(Rule::kSums, rank, "updates " + name + " by a gradient with other addends than other ranks do");
      updated_elements_.push_back(
          {first_element_[static_cast<size_t>(parameter->tensor)] + content.origin / call.element(),
           length / call.element()});
      orders_.gradients.push_back({updated_elements_.back(), ledger_.order(*gradient)});
      parameter->version = 1;
    } else if (!content.is<Nothing>() || !added.is_empty()) {
      return refuted(Rule::kUpdates, rank, "updates what is no parameter");
    }
    const int32_t tensor = parameter != nullptr ? parameter->tensor : -1;
    PIPER_RETURN_IF_ERROR(check_moments(rank, call, tensor, content.origin, done, length));
    const BufferRange from{call.gradient.buffer, call.gradient.offset + done};
    if (tensor >= 0 && !takes_placed_gradient(rank, from, length, tensor, content.origin))
      return refuted(Rule::kUpdates, rank, "takes the gradient of \"" + tensors_[tensor] + "\" where it is not placed");
    append(updated, {length, content});
    done += length;
    in_a += length;
    in_b += length;
    if (in_a == scratch_[i].bytes) ++i, in_a = 0;
    if (in_b == scratch_more_[j].bytes) ++j, in_b = 0;
  }
  // What is the same for all elements.
  Seen seen;
  PIPER_RETURN_IF_ERROR(read_scalar(rank, call.rate, dtype_bytes(DType::kF64),
                                    ledger_.labels.id("learning_rate", StepNumber::kLearningRate), "learning_rate",
                                    seen));
  scratch_.clear();
  rank.contents.take(call.step, dtype_bytes(DType::kI64), scratch_);
  for (const auto& piece : scratch_)
    if (const auto* const counter = piece.content.as<Counter>();
        counter == nullptr || *counter != Counter{Counter::Of::kSteps, true})
      return refuted(Rule::kUpdates, rank, "does not read the number of its own step");
  if (call.scale.buffer >= 0) {
    scratch_.clear();
    rank.contents.take(call.scale, 4, scratch_);
    const Clip factor{bundle_.manifest.clip_grad_norm > 0 ? Clip::Is::kFactor : Clip::Is::kUnscaling, scales()};
    if (scratch_.empty() || scratch_[0].content.what != Content::What(factor))
      return refuted(Rule::kUpdates, rank, "scales by what is no factor of clipping");
  }
  if (call.overflow.buffer >= 0) {
    scratch_.clear();
    rank.contents.take(call.overflow, 4, scratch_);
    if (const auto wrong = take_overflow(rank, scratch_); !wrong.empty()) return refuted(Rule::kUpdates, rank, wrong);
  }
  if (call.working.buffer >= 0) PIPER_RETURN_IF_ERROR(write_working(rank, call, updated));

  rank.contents.put(call.parameter, updated);
  rank.contents.put(call.gradient, call.bytes, {Zero()});
  return {};
}

}  // namespace piper::verify
