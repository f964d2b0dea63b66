// Updates: a complete gradient of the very elements, the same way on every rank that holds a copy.
#include <algorithm>

#include "schemas/verify/flow.h"

namespace piper::verify {

using namespace plan;
using Kind = Content::Kind;

Status Flow::update(Rank& rank, const Update& update) {
  const int64_t bytes = update.count * dtype_bytes(DType::kF32);
  const auto r = static_cast<size_t>(&rank - ranks_.data());
  const auto& optimizer = bundle_.manifest.optimizer;
  const bool has_m = optimizer.kind != "sgd" || optimizer.momentum != 0, has_v = optimizer.kind != "sgd";
  if ((update.m.buffer >= 0) != has_m || (update.v.buffer >= 0) != has_v)
    return refuted("P0638", rank, "its moments are not those of the optimizer " + optimizer.kind);
  for (const auto& where : {update.m, update.v}) {
    if (where.buffer < 0) continue;
    if (rank.plan->buffers[static_cast<size_t>(where.buffer)].cls != BufferClass::kOptimizer)
      return refuted("P0638", rank,
                     "keeps its moments in \"" + rank.plan->buffers[static_cast<size_t>(where.buffer)].name +
                         "\", which does not outlive the step");
    moments_.push_back({r, where.buffer, where.offset, where.offset + bytes, static_cast<int32_t>(rank.next)});
  }
  scratch_.clear();
  scratch_more_.clear();
  rank.contents.take(update.parameter, bytes, scratch_);
  rank.contents.take(update.gradient, bytes, scratch_more_);
  Pieces updated;
  size_t i = 0, j = 0;
  for (int64_t in_a = 0, in_b = 0; i < scratch_.size() && j < scratch_more_.size();) {
    Content parameter = scratch_[i].content, gradient = scratch_more_[j].content;
    parameter.origin += in_a;
    gradient.origin += in_b;
    const int64_t length = std::min(scratch_[i].bytes - in_a, scratch_more_[j].bytes - in_b);
    if (parameter.kind == Kind::kParameter) {
      const std::string name = "\"" + tensors_[parameter.what] + "\"";
      if (gradient.kind != Kind::kSum) return refuted("P0636", rank, "updates " + name + " without a gradient");
      std::vector<int32_t> addends;
      for (const auto& term : ledger_.terms(gradient)) {
        const auto& addend = ledger_.addends[term.first];
        if (addend.tensor != parameter.what || gradient.origin != parameter.origin)
          return refuted("P0636", rank,
                         "updates elements from " + std::to_string(parameter.origin / 4) + " of " + name + " by what " +
                             addend.chunk + " adds to elements from " + std::to_string(gradient.origin / 4) + " of \"" +
                             addend.slot + "\"");
        addends.push_back(term.first);
      }
      if (const auto wrong = ledger_.use(gradient); !wrong.empty())
        return refuted("P0636", rank, "updates " + name + " by a gradient with " + wrong);
      if (parameter.how != 0) return refuted("P0638", rank, "updates " + name + " a second time");
      if (!bundle_.manifest.tensors[static_cast<size_t>(parameter.what)].trained)
        return refuted("P0638", rank, "updates " + name + ", which is not trained");
      const auto [it, fresh] =
          updated_.emplace(parameter.what, Updated{addends, update.group, {r, static_cast<int32_t>(rank.next)}});
      if (!fresh && it->second.addends != addends)
        return refuted("P0636", rank, "updates " + name + " by a gradient with other addends than other ranks do");
      if (!fresh && it->second.group != update.group)
        return refuted("P0638", rank, "updates " + name + " in another group of the optimizer than other ranks do");
      updated_elements_.push_back(
          {first_element_[static_cast<size_t>(parameter.what)] + parameter.origin / 4, length / 4});
      parameter.how = 1;
    } else if (parameter.kind != Kind::kNothing || (gradient.kind != Kind::kZero && gradient.kind != Kind::kNothing)) {
      return refuted("P0638", rank, "updates what is no parameter");
    }
    append(updated, {length, parameter});
    in_a += length;
    in_b += length;
    if (in_a == scratch_[i].bytes) ++i, in_a = 0;
    if (in_b == scratch_more_[j].bytes) ++j, in_b = 0;
  }
  const bool clips = bundle_.manifest.clip_grad_norm > 0;
  if (clips != (update.scale.buffer >= 0))
    return refuted("P0638", rank,
                   clips ? "does not clip the gradient" : "scales the gradient, though nothing is clipped");
  if (clips) {
    scratch_.clear();
    rank.contents.take(update.scale, 4, scratch_);
    if (scratch_.empty() || scratch_[0].content.kind != Kind::kClip || scratch_[0].content.what != 1)
      return refuted("P0638", rank, "scales by what is no factor of clipping");
  }

  rank.contents.put(update.parameter, updated);
  Content zero;
  zero.kind = Kind::kZero;
  rank.contents.put(update.gradient, bytes, zero);
  return {};
}

}  // namespace piper::verify
