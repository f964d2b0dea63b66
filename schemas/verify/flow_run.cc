// Runs: what they read must be what their slots name, for the same samples; what they make is of those samples.
#include <algorithm>

#include "schemas/verify/accesses.h"
#include "schemas/verify/flow.h"

#include "schemas/plan/names.h"

namespace piper::verify {

using namespace plan;
using Kind = Content::Kind;
using Do = ProgramEffects::Do;

namespace {

// Labels of saved blocks are CHUNK\nSLOT.
std::string shown(std::string label) {
  const size_t line = label.find('\n');
  return in_quotes(line == std::string::npos ? label : label.substr(line + 1) + " of " + label.substr(0, line));
}

}  // namespace

int32_t Flow::samples_of(const Piece& piece) {
  return ledger_.samples.slice(piece.content.how, piece.content.origin, piece.bytes, piece.content.size);
}

bool Flow::is_called(int32_t value, int32_t label) {
  if (value < 0 || value == label) return true;
  // An exchange makes another value, which no program makes and whose name its first reader tells.
  const bool made = static_cast<size_t>(label) < made_.size() && made_[static_cast<size_t>(label)];
  return ledger_.is_exchanged(value) && !made && exchanged_.emplace(label, value).first->second == value;
}

Status Flow::read_value(Rank& rank, const BufferRange& where, int64_t bytes, int32_t label, const std::string& slot,
                        Seen& seen) {
  // Nearly always: one whole value.
  if (const auto* segment = rank.contents.buffer(where.buffer).whole(where.offset, where.offset + bytes)) {
    const auto& content = segment->content;
    if (content.kind == Kind::kValue && content.what == label && content.parts == 0 && segment->begin == where.offset &&
        content.origin == 0 && content.size == bytes &&
        (content.how == 0 || seen.samples == 0 || content.how == seen.samples)) {
      if (content.how != 0) seen.samples = content.how;
      seen.scaled = seen.scaled || content.scaled;
      return {};
    }
  }
  scratch_.clear();
  rank.contents.take(where, bytes, scratch_);
  int32_t samples = 0, first = -1;
  int32_t parts = 0, at = -1;
  bool alike = true;
  for (const auto& piece : scratch_) {
    const auto& content = piece.content;
    switch (content.kind) {
      case Kind::kValue: break;
      case Kind::kNothing:  // rounding behind the value
        if (scratch_.size() > 1 && &piece == &scratch_.back() && piece.bytes < kRounding) continue;
        return refuted(Rule::kMeaning, rank, "reads what nothing wrote where " + in_quotes(slot) + " should be");
      case Kind::kZero: return refuted(Rule::kMeaning, rank, "reads zeros where " + in_quotes(slot) + " should be");
      case Kind::kConstant:
        return refuted(
            Rule::kMeaning, rank,
            "reads constant " + in_quotes(constants_[content.what]) + " where " + in_quotes(slot) + " should be");
      case Kind::kClip:
      case Kind::kSum: {  // a number that is the same for all samples, where no program makes a value of this name
        const bool made = static_cast<size_t>(label) < made_.size() && made_[static_cast<size_t>(label)];
        const bool gradient =
            content.kind == Kind::kSum && ledger_.addends[ledger_.terms(content)[0].first].tensor >= 0;
        if (content.kind == Kind::kSum && !made && !gradient && checked_sums_.emplace(content.what, content.how).second)
          if (const std::string lacks = use_sum(ledger_.addends[ledger_.terms(content)[0].first].slot, content);
              !lacks.empty())
            return refuted(Rule::kSums, rank, "reads " + in_quotes(slot) + " with " + lacks);
        if (!made && !gradient) continue;
        return refuted(Rule::kMeaning, rank,
                       (gradient ? "reads a gradient where " : "reads a sum where ") + in_quotes(slot) + " should be");
      }
      case Kind::kParameter:
      case Kind::kMaster:
        return refuted(
            Rule::kMeaning, rank,
            "reads parameter " + in_quotes(tensors_[content.what]) + " where " + in_quotes(slot) + " should be");
      case Kind::kMoment:
      case Kind::kCounter:
      case Kind::kStatistic:
      case Kind::kOther:
        return refuted(Rule::kMeaning, rank,
                       "reads " + in_quotes(rank.plan->buffers[static_cast<size_t>(where.buffer)].name) + " where " +
                           in_quotes(slot) + " should be");
    }
    if (!is_called(content.what, label))
      return refuted(Rule::kMeaning, rank,
                     "reads " + shown(ledger_.labels[content.what]) + " where " + in_quotes(slot) + " should be");
    const bool saved = label >= 0 && ledger_.labels[label].find('\n') != std::string::npos;
    if (saved && (content.origin != 0 || content.size != bytes))
      return refuted(Rule::kMeaning, rank, "reads a part of a saved block as " + in_quotes(slot));
    const int32_t here = samples_of(piece);
    if (here < 0)
      return refuted(Rule::kMeaning, rank,
                     "reads a part of " + in_quotes(slot) + " that begins or ends inside of a sample");
    if (first < 0) first = here;
    alike = alike && here == first;
    parts = std::max(parts, content.parts);
    if (at >= 0 && content.at >= 0 && content.at != at)
      return refuted(Rule::kMeaning, rank, "reads " + in_quotes(slot) + " of rows that others sent to different parts");
    at = std::max(at, content.at);
    seen.scaled = seen.scaled || content.scaled;
    samples = ledger_.samples.append(samples, here);
  }
  // What a rank sent to others and got back from them is its own again.
  if (parts > 0 && alike && scratch_.size() == static_cast<size_t>(parts)) samples = first, parts = 0, at = -1;
  if (samples == 0) return {};
  if (seen.samples != 0 && seen.samples != samples)
    return refuted(Rule::kMeaning, rank,
                   "reads " + in_quotes(slot) + " for " + text(ledger_.samples.ranges(samples)) +
                       ", other values for " + text(ledger_.samples.ranges(seen.samples)));
  seen.samples = samples;
  if (seen.at >= 0 && at >= 0 && seen.at != at)
    return refuted(Rule::kMeaning, rank,
                   "reads " + in_quotes(slot) + " as sent to part " + std::to_string(at) + ", other values to part " +
                       std::to_string(seen.at));
  seen.parts = std::max(seen.parts, parts);
  seen.at = std::max(seen.at, at);
  return {};
}

Status Flow::check_part(const Rank& rank, int64_t first, int64_t count, int32_t tensor, const std::string& slot,
                        const Seen& seen) const {
  const int64_t whole = num_elements_[static_cast<size_t>(tensor)];
  if (count >= whole) return {};
  if (seen.at < 0)
    return refuted(Rule::kMeaning, rank,
                   "reads a part of " + in_quotes(slot) + " for rows that nobody sent to that part");
  if (first == whole / seen.parts * seen.at) return {};
  return refuted(Rule::kMeaning, rank,
                 "reads " + in_quotes(slot) + " from element " + std::to_string(first) +
                     " on for rows that were sent to part " + std::to_string(seen.at) + " of " +
                     std::to_string(seen.parts));
}

Status Flow::read_parameter(Rank& rank, const BufferRange& where, int64_t bytes, int32_t tensor,
                            const std::string& slot, const Seen& seen) {
  if (tensor < 0) return refuted(Rule::kMeaning, rank, "the model has no parameter " + in_quotes(slot));
  int64_t& slice = rank.contents.slice[static_cast<size_t>(tensor)];
  // Nearly always: one piece, where other runs read it too.
  if (auto* segment = rank.contents.buffer(where.buffer).whole(where.offset, where.offset + bytes)) {
    auto& content = segment->content;
    if (content.kind == Kind::kParameter && content.what == tensor && content.how == 0 &&
        content.origin + where.offset - segment->begin == slice * content.size) {
      content.relied = content.start;
      return check_part(rank, slice, bytes / content.size, tensor, slot, seen);
    }
  }
  scratch_.clear();
  rank.contents.take(where, bytes, scratch_);
  int64_t expected = scratch_.empty() ? 0 : scratch_[0].content.origin;
  const int64_t element = scratch_.empty() ? 1 : std::max<int64_t>(scratch_[0].content.size, 1);
  if (slice < 0) slice = expected / element;
  if (slice * element != expected)
    return refuted(Rule::kMeaning, rank,
                   "reads " + in_quotes(slot) + " from another element on than other runs of this rank");
  for (const auto& piece : scratch_) {
    const auto& content = piece.content;
    if (content.kind == Kind::kMaster)
      return refuted(Rule::kMeaning, rank, "reads the master of " + in_quotes(slot) + ", not its working copy");
    if (content.kind != Kind::kParameter)
      return refuted(Rule::kMeaning, rank,
                     "reads what is no parameter, or was not gathered, where " + in_quotes(slot) + " should be");
    if (content.what != tensor || content.origin != expected || content.size != element)
      return refuted(Rule::kMeaning, rank,
                     "reads elements from " + std::to_string(content.origin / element) + " of " +
                         in_quotes(tensors_[content.what]) + " where elements from " +
                         std::to_string(expected / element) + " of " + in_quotes(slot) + " should be");
    if (content.how != 0) return refuted(Rule::kMeaning, rank, "reads " + in_quotes(slot) + " after its update");
    expected += piece.bytes;
  }
  return check_part(rank, slice, bytes / element, tensor, slot, seen);
}

Status Flow::read_scalar(Rank& rank, const BufferRange& where, int64_t bytes, int32_t label, const std::string& slot,
                         Seen& seen) {
  scratch_.clear();
  rank.contents.take(where, bytes, scratch_);
  if (slot == "loss_scale") {
    seen.scaled = true;
    return is_loss_scale(scratch_) ? Status()
                                   : refuted(Rule::kMeaning, rank, "reads what is no loss scale of this step");
  }
  for (const auto& piece : scratch_) {
    if (piece.content.kind != Kind::kValue || (piece.content.what >= 0 && piece.content.what != label))
      return refuted(Rule::kMeaning, rank, "reads something else where " + in_quotes(slot) + " should be");
    if (piece.content.how != 0)
      return refuted(Rule::kMeaning, rank, "reads samples where " + in_quotes(slot) + " should be");
  }
  if (slot != "learning_rate" && slot != "seed_step" && slot != "sample_offset") return {};
  const auto* set = rank.contents.buffer(where.buffer).whole(where.offset, where.offset + bytes);
  const bool by_executor = set != nullptr && set->content.start && set->begin == where.offset;
  return by_executor
             ? Status()
             : refuted(Rule::kMeaning, rank, "reads what a program made where " + in_quotes(slot) + " should be");
}

Status Flow::read_constant(Rank& rank, const BufferRange& where, ProgramEffects::Bound& bound,
                           const std::string& slot) {
  scratch_.clear();
  rank.contents.take(where, bound.bytes, scratch_);
  if (scratch_.empty()) return {};
  const auto& content = scratch_[0].content;
  if (scratch_.size() != 1 || content.kind != Kind::kConstant || content.origin != 0)
    return refuted(Rule::kMeaning, rank, "reads what is no constant where " + in_quotes(slot) + " should be");
  // All runs of a program read the same.
  if (bound.what < 0) bound.what = content.what;
  if (bound.what != content.what)
    return refuted(Rule::kMeaning, rank,
                   "reads constant " + in_quotes(constants_[content.what]) + " as " + in_quotes(slot) +
                       ", other runs of the program " + in_quotes(constants_[bound.what]));
  return {};
}

Status Flow::on_statistic(Rank& rank, const BufferRange& where, const ProgramEffects::Bound& bound, bool updates,
                          const Seen& seen, const std::string& slot) {
  auto* segment = rank.contents.buffer(where.buffer).whole(where.offset, where.offset + bound.bytes);
  const bool right = segment != nullptr && segment->content.kind == Kind::kStatistic &&
                     segment->content.what == bound.what && segment->content.origin + where.offset == segment->begin;
  if (!right)
    return refuted(Rule::kMeaning, rank,
                   "has something else where the running statistic " + in_quotes(slot) + " should be");
  if (!updates) return {};
  auto& taken = segment->content.how;
  const auto& before = ledger_.samples.ranges(taken);
  const auto& more = ledger_.samples.ranges(seen.samples);
  if (!before.empty() && !more.empty() && before.back().first + before.back().count > more.front().first)
    return refuted(
        Rule::kUpdates, rank,
        "updates the running statistic " + in_quotes(slot) + " by " + text(more) + " behind " + text(before));
  taken = ledger_.samples.append(taken, seen.samples);
  return {};
}

Status Flow::check_layout(Rank& rank, const BufferRange& where, int64_t bytes, LayoutId wanted,
                          const std::string& slot) {
  const auto wrong = [&](const std::string& what) {
    return refuted(Rule::kMeaning, rank, "slot " + in_quotes(slot) + ": the program " + what);
  };
  if (const auto* segment = rank.contents.buffer(where.buffer).whole(where.offset, where.offset + bytes)) {
    const Content& content = segment->content;
    if (content.layout == wanted && wanted >= 0 && wanted <= layout_of(DType::kBool)) return {};
    const int64_t origin = content.origin + where.offset - segment->begin;
    const std::string misfit = layouts_.misfit(content.layout, origin, wanted, bytes);
    return misfit.empty() ? Status() : wrong(misfit);
  }
  scratch_.clear();
  rank.contents.take(where, bytes, scratch_);
  for (const Piece& piece : scratch_)
    if (wanted <= layout_of(DType::kBool))
      if (const std::string misfit = layouts_.misfit(piece.content.layout, piece.content.origin, wanted, piece.bytes);
          !misfit.empty())
        return wrong(misfit);
  return {};
}

Status Flow::check_elements(const Rank& rank, const Pieces& pieces, DType dtype) const {
  for (const Piece& piece : pieces)
    if (const std::string is = layouts_.misfit(piece.content.layout, dtype); !is.empty())
      return refuted(Rule::kMeaning, rank, "takes elements of " + is + " for " + std::string(dtype_name(dtype)));
  return {};
}

Status Flow::on_sum(Rank& rank, const BufferRange& where, int64_t bytes, const ProgramEffects::OnSum& what,
                    const SlotLayout& layout, const Seen& seen, const std::string& slot) {
  switch (what.act) {
    case Do::kClear: {
      Content zero;
      zero.kind = Kind::kZero;
      rank.contents.put(where, bytes, zero);
      return {};
    }
    case Do::kConsume: {
      scratch_.clear();
      rank.contents.take(where, bytes, scratch_);
      bool any = false;
      for (const auto& piece : scratch_) {
        if (piece.content.kind != Kind::kSum) continue;
        any = true;
        for (const auto& [addend, sum] : ledger_.terms(piece.content)) {
          if (const std::string& added = ledger_.addends[addend].slot; added != slot)
            return refuted(Rule::kSums, rank, "uses " + in_quotes(slot) + " with what is added to " + in_quotes(added));
          if (ledger_.addends[addend].tensor >= 0)
            return refuted(Rule::kSums, rank, "reads the gradient " + in_quotes(slot) + ", which is for updates alone");
        }
        if (const auto wrong = use_sum(slot, piece.content); !wrong.empty())
          return refuted(Rule::kSums, rank, "uses " + in_quotes(slot) + " with " + wrong);
      }
      return any ? Status() : refuted(Rule::kSums, rank, "uses " + in_quotes(slot) + ", to which nothing was added");
    }
    case Do::kAdd:
    case Do::kAssign: break;
  }
  const auto addend = static_cast<size_t>(what.addend);
  if (first_adder_.size() <= addend) first_adder_.resize(addend + 1);
  if (first_adder_[addend].instruction < 0) first_adder_[addend] = place_of(rank);
  const int32_t tensor = ledger_.addends[what.addend].tensor;
  if (tensor >= 0 && scales() != seen.scaled)
    return refuted(Rule::kMeaning, rank,
                   "adds " + in_quotes(slot) +
                       (seen.scaled ? ", which is scaled, in a step without a loss scale" : " without the loss scale"));
  const int64_t base = tensor >= 0 ? std::max<int64_t>(rank.contents.slice[static_cast<size_t>(tensor)], 0) *
                                         element_bytes_[static_cast<size_t>(tensor)]
                                   : 0;
  Content more = ledger_.sum(what.addend, seen.samples, base);
  more.layout = layout.leaves;
  if (what.act == Do::kAssign) {
    rank.contents.put(where, bytes, more);
    return {};
  }
  for (auto& segment : rank.contents.cut(where, bytes)) {
    auto& content = segment.content;
    const int64_t origin = base + segment.begin - where.offset;
    if (content.kind == Kind::kZero) {
      content.relied = content.start;
      rank.contents.replaced(where.buffer, segment);
      content = more;
      content.origin = origin;
      continue;
    }
    if (content.kind != Kind::kSum) return refuted(Rule::kSums, rank, "adds " + in_quotes(slot) + " to what is no sum");
    if (content.layout != more.layout)
      return refuted(Rule::kSums, rank, "adds " + in_quotes(slot) + " to a sum of elements of another type");
    if (content.origin != origin)
      return refuted(Rule::kSums, rank, "adds " + in_quotes(slot) + " to a sum over other elements");
    ledger_.add(content, what.addend, seen.samples);
  }
  return {};
}

std::string Flow::use_sum(const std::string& name, const Content& sum) {
  std::vector<int32_t> addends;
  for (const auto& term : ledger_.terms(sum)) addends.push_back(term.first);  // ascending
  const auto [known, fresh] = used_sums_.emplace(name, addends);
  if (!fresh)
    std::erase_if(known->second, [&](int32_t a) { return !std::binary_search(addends.begin(), addends.end(), a); });
  return ledger_.use(sum);
}

Status Flow::run(Rank& rank, const Run& run) {
  auto& effects = effects_[static_cast<size_t>(run.program)];
  const auto& program = bundle_.programs[static_cast<size_t>(run.program)];
  const auto& arguments = rank.plan->arguments[static_cast<size_t>(run.arguments)].arguments;
  if (effects.follow) return follow(rank, effects, program, arguments);
  if (!effects.not_run.empty()) return refuted(Rule::kMeaning, rank, "is of " + effects.not_run);
  const auto name = [&](int32_t index) -> const std::string& { return program.slots[static_cast<size_t>(index)].name; };
  const auto where = [&](int32_t index) -> const BufferRange& { return arguments[static_cast<size_t>(index)]; };
  const SlotLayouts& layouts = slots_[static_cast<size_t>(run.program)];
  for (const auto* list :
       {&effects.reads, &effects.scalars, &effects.parameters, &effects.constants, &effects.statistics})
    for (const auto& bound : *list)
      PIPER_RETURN_IF_ERROR(check_layout(rank, where(bound.slot), bound.bytes,
                                         layouts[static_cast<size_t>(bound.slot)].reads, name(bound.slot)));
  Seen seen;
  for (const auto& [index, label, bytes] : effects.reads)
    PIPER_RETURN_IF_ERROR(read_value(rank, where(index), bytes, label, name(index), seen));
  for (const auto& [index, tensor, bytes] : effects.parameters)
    PIPER_RETURN_IF_ERROR(read_parameter(rank, where(index), bytes, tensor, name(index), seen));
  for (const auto& [index, label, bytes] : effects.scalars)
    PIPER_RETURN_IF_ERROR(read_scalar(rank, where(index), bytes, label, name(index), seen));
  for (auto& bound : effects.constants)
    PIPER_RETURN_IF_ERROR(read_constant(rank, where(bound.slot), bound, name(bound.slot)));
  for (const int32_t index : effects.sample_offsets) {
    if (index < 0) return refuted(Rule::kMeaning, rank, "draws its dropout by something else than a sample's position");
    if (seen.samples == 0) continue;
    const auto& samples = ledger_.samples.ranges(seen.samples);
    const auto set = rank.scalars.find(where(index).buffer);
    const bool one = set != rank.scalars.end() && set->second->size() == 1 && where(index).offset == 0;
    if (!one || set->second->front() != samples[0].first || samples.size() != 1)
      return refuted(Rule::kMeaning, rank, "draws its dropout for another sample than its first");
  }
  for (const auto& bound : effects.statistics)
    PIPER_RETURN_IF_ERROR(on_statistic(rank, where(bound.slot), bound,
                                       program.slots[static_cast<size_t>(bound.slot)].writes, seen, name(bound.slot)));
  for (const auto& sum : effects.sums)
    PIPER_RETURN_IF_ERROR(
        on_sum(rank, where(sum.slot), sum.bytes, sum, layouts[static_cast<size_t>(sum.slot)], seen, name(sum.slot)));
  for (const auto& [index, label, bytes] : effects.writes) {
    Content value;
    value.kind = Kind::kValue;
    value.what = label;
    value.how = seen.samples;
    value.parts = seen.parts;
    value.at = seen.at;
    value.scaled = seen.scaled;
    value.size = bytes;
    value.layout = layouts[static_cast<size_t>(index)].leaves;
    rank.contents.put(where(index), bytes, value);
  }
  return {};
}

}  // namespace piper::verify
