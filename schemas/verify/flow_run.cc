// Runs: what they read must be what their slots name, for the same samples; what they make is of those samples.
#include <algorithm>
#include <utility>

#include "schemas/plan/actions.h"
#include "schemas/plan/names.h"
#include "schemas/verify/accesses.h"
#include "schemas/verify/flow.h"

namespace piper::verify {

using namespace plan;
using Do = ProgramEffects::Do;

namespace {

// Labels of saved blocks are CHUNK\nSLOT.
std::string shown(std::string label) {
  const size_t line = label.find('\n');
  return in_quotes(line == std::string::npos ? label : label.substr(line + 1) + " of " + label.substr(0, line));
}

}  // namespace

int32_t Flow::samples_of(const Value& value, const Piece& piece) {
  return ledger_.samples.slice(value.samples, piece.content.origin, piece.bytes, value.bytes);
}

bool Flow::is_called(const Value& value, int32_t label) {
  if (value.label < 0 || value.label == label) return true;
  // An exchange, a sum over places or a gather of their parts makes another value, which no program makes and whose
  // name its first reader gives.
  if (is_made(label) || !(value.conversions > 0 || ledger_.is_exchanged(value.label))) return false;
  const Arrived arrived{value.label, static_cast<int32_t>(value.conversions)};
  return exchanged_.emplace(label, arrived).first->second == arrived;
}

int32_t Flow::spread_of(const Rank& rank, const Slot& slot) const {
  if (slot.cut >= 0) return places_.id(slot.spread, slot.cut, rank.plan->rank);
  return slot.role == SlotRole::kSaved ? rank.kept : Places::kWhole;
}

Status Flow::check_spread(const Rank& rank, int32_t found, int32_t wanted, const std::string& slot) const {
  if (wanted < 0)
    return refuted(Rule::kMeaning, rank,
                   "has a part or a share in " + in_quotes(slot) + ", but is in no group of the cut that it is of");
  if (found == wanted) return {};
  return refuted(
      Rule::kMeaning, rank,
      "reads " + places_.text(found) + " " + in_quotes(slot) + " where " + places_.text(wanted) + " it should be");
}

bool Flow::is_made(int32_t label) const {
  return static_cast<size_t>(label) < made_.size() && made_[static_cast<size_t>(label)];
}

// What is where a value should be, and is none: refused, except a number that is the same for all samples, where no
// program makes a value of this name.
Status Flow::check_no_value(const Rank& rank, const Content& content, const BufferRange& where, int32_t label,
                            const std::string& slot) {
  const auto reads = [&](const std::string& what) {
    return refuted(Rule::kMeaning, rank, "reads " + what + " where " + in_quotes(slot) + " should be");
  };
  const auto reads_buffer = [&] {
    return reads(in_quotes(rank.plan->buffers[static_cast<size_t>(where.buffer)].name));
  };
  const auto on_sum = [&](const Sum& sum) -> Status {
    const Addend& first = ledger_.addends[ledger_.terms(sum)[0].first];
    if (first.tensor >= 0) return reads("a gradient");
    if (is_made(label)) return reads("a sum");
    if (const std::string& known = sums_read_as_.emplace(label, first.slot).first->second; known != first.slot)
      return reads("the sum " + in_quotes(first.slot) + ", and other runs " + in_quotes(known));
    if (!checked_sums_.insert(sum).second) return {};
    const std::string lacks = use_sum(first.slot, sum);
    return lacks.empty() ? Status() : refuted(Rule::kSums, rank, "reads " + in_quotes(slot) + " with " + lacks);
  };
  return std::visit(
      Cases{[](const Value&) { return Status(); }, [&](const Nothing&) { return reads("what nothing wrote"); },
            [&](const Zero&) { return reads("zeros"); },
            [&](const Constant& constant) { return reads("constant " + in_quotes(constants_[constant.name])); },
            [&](const Clip&) { return is_made(label) ? reads("a sum") : Status(); },
            [&](const Sum& sum) { return on_sum(sum); },
            [&](const Parameter& parameter) { return reads("parameter " + in_quotes(tensors_[parameter.tensor])); },
            [&](const IsOneOf<OptimizerMoment, Counter, Statistic, Other> auto&) { return reads_buffer(); }},
      content.what);
}

Status Flow::read_value(Rank& rank, const BufferRange& where, const ProgramEffects::Bound& bound, int32_t spread,
                        const std::string& slot, Seen& seen) {
  const int32_t label = bound.what;
  const int64_t bytes = bound.bytes;
  // Nearly always: one whole value.
  if (const auto* segment = rank.contents.buffer(where.buffer).whole(where.offset, where.offset + bytes)) {
    const auto* const value = segment->content.as<Value>();
    if (value != nullptr && value->label == label && value->parts == 0 && value->spread == spread &&
        segment->begin == where.offset && segment->content.origin == 0 && value->bytes == bytes &&
        (value->samples == 0 || seen.samples == 0 || value->samples == seen.samples) && !value->by_place &&
        !seen.by_place) {
      if (value->samples != 0) seen.samples = value->samples;
      seen.scaled = seen.scaled || value->scaled;
      return {};
    }
  }
  scratch_.clear();
  rank.contents.take(where, bytes, scratch_);
  int32_t samples = 0, first = -1;
  int32_t parts = 0, at = -1;
  bool alike = true, by_place = false;
  int64_t done = 0;  // bytes of the slot
  for (const auto& piece : scratch_) {
    const auto& content = piece.content;
    const int64_t begin = std::exchange(done, done + piece.bytes);
    const bool rounding = scratch_.size() > 1 && &piece == &scratch_.back() && piece.bytes < kRounding;
    if (content.is<Nothing>() && rounding) continue;  // after the value
    const auto* const value = content.as<Value>();
    if (value == nullptr) {
      PIPER_RETURN_IF_ERROR(check_no_value(rank, content, where, label, slot));
      continue;
    }
    if (!is_called(*value, label))
      return refuted(Rule::kMeaning, rank,
                     "reads " + shown(ledger_.labels[value->label]) + " where " + in_quotes(slot) + " should be");
    PIPER_RETURN_IF_ERROR(check_spread(rank, static_cast<int32_t>(value->spread), spread, slot));
    const bool saved = label >= 0 && ledger_.labels[label].find('\n') != std::string::npos;
    if (saved && (content.origin != 0 || value->bytes != bytes))
      return refuted(Rule::kMeaning, rank, "reads a part of a saved block as " + in_quotes(slot));
    if (value->samples == 0 && value->parts <= 1 && (content.origin != begin || value->bytes != bytes))
      return refuted(Rule::kMeaning, rank, "reads a part of " + in_quotes(slot) + ", which has no samples");
    const int32_t here = samples_of(*value, piece);
    if (here < 0)
      return refuted(Rule::kMeaning, rank,
                     "reads a part of " + in_quotes(slot) + " that begins or ends inside a sample");
    if (first < 0) first = here;
    alike = alike && here == first;
    parts = std::max(parts, static_cast<int32_t>(value->parts));
    const auto part = static_cast<int32_t>(value->at);
    if (at >= 0 && part >= 0 && part != at)
      return refuted(Rule::kMeaning, rank, "reads " + in_quotes(slot) + " of rows that others sent to different parts");
    at = std::max(at, part);
    seen.scaled = seen.scaled || value->scaled;
    by_place = by_place || value->by_place;
    samples = ledger_.samples.append(samples, here);
  }
  // What a rank sent to others and got back from them is its own again.
  if (parts > 0 && alike && scratch_.size() == static_cast<size_t>(parts)) samples = first, parts = 0, at = -1;
  if (samples == 0) return {};
  if (seen.samples != 0 && seen.by_place != by_place)
    return refuted(Rule::kMeaning, rank,
                   "reads " + in_quotes(slot) +
                       (by_place ? " of all places' rows, together with values of its own"
                                 : " of its own, together with values of all places' rows"));
  seen.by_place = by_place;
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
  if (bundle_.manifest.tensors[static_cast<size_t>(tensor)].cut)
    return check_part_of_cut(rank, first, count, tensor, slot, seen);
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

Status Flow::check_part_of_cut(const Rank& rank, int64_t first, int64_t count, int32_t tensor, const std::string& slot,
                               const Seen& seen) const {
  const auto t = static_cast<size_t>(tensor);
  const int32_t over = bundle_.manifest.tensors[t].cut->cut, place = places_.place(over, rank.plan->rank);
  const Cut& cut = bundle_.manifest.cuts[static_cast<size_t>(over)];
  if (place < 0)
    return refuted(
        Rule::kMeaning, rank,
        "reads " + in_quotes(slot) + ", but is in no group of cut " + in_quotes(cut.name) + " that it is cut over");
  const int64_t part = num_elements_[t] / cut.places();
  if (first == part * place && count == part) return {};
  // For experts, which are along the first axis: of what the place has the part to which others sent the rows.
  const int64_t of_experts = seen.at < 0 ? 0 : part / seen.parts;
  if (of_experts > 0 && first == part * place + of_experts * seen.at && count == of_experts) return {};
  return refuted(Rule::kMeaning, rank,
                 "reads " + std::to_string(count) + " elements of " + in_quotes(slot) + " from " +
                     std::to_string(first) + " on, where those of its place " + std::to_string(place) + " of cut " +
                     in_quotes(cut.name) + " are " + std::to_string(part) + " from " + std::to_string(part * place) +
                     " on");
}

Status Flow::read_parameter(Rank& rank, const BufferRange& where, int64_t bytes, int32_t tensor,
                            const std::string& slot, const Seen& seen) {
  if (tensor < 0) return refuted(Rule::kMeaning, rank, "the model has no parameter " + in_quotes(slot));
  int64_t& slice = rank.contents.slice[static_cast<size_t>(tensor)];
  // Nearly always: one piece, where other runs read it too.
  if (auto* segment = rank.contents.buffer(where.buffer).whole(where.offset, where.offset + bytes)) {
    auto& content = segment->content;
    const auto* const held = content.as<Parameter>();
    if (held != nullptr && !held->master && held->tensor == tensor && held->version == 0 &&
        content.origin + where.offset - segment->begin == slice * held->element) {
      content.relied = content.start;
      return check_part(rank, slice, bytes / held->element, tensor, slot, seen);
    }
  }
  scratch_.clear();
  rank.contents.take(where, bytes, scratch_);
  int64_t expected = scratch_.empty() ? 0 : scratch_[0].content.origin;
  const auto* const first = scratch_.empty() ? nullptr : scratch_[0].content.as<Parameter>();
  const int64_t element = first == nullptr ? 1 : std::max(first->element, 1);
  if (slice < 0) slice = expected / element;
  if (slice * element != expected && bundle_.manifest.tensors[static_cast<size_t>(tensor)].cut) {
    PIPER_RETURN_IF_ERROR(check_part_of_cut(rank, expected / element, bytes / element, tensor, slot, seen));
    slice = expected / element;  // that of its experts
  }
  if (slice * element != expected)
    return refuted(Rule::kMeaning, rank,
                   "reads " + in_quotes(slot) + " from another element on than other runs of this rank");
  for (const auto& piece : scratch_) {
    const auto& content = piece.content;
    const auto* const held = content.as<Parameter>();
    if (held != nullptr && held->master)
      return refuted(Rule::kMeaning, rank, "reads the master of " + in_quotes(slot) + ", not its working copy");
    if (held == nullptr)
      return refuted(Rule::kMeaning, rank,
                     "reads what is no parameter, or was not gathered, where " + in_quotes(slot) + " should be");
    if (held->tensor != tensor || content.origin != expected || held->element != element)
      return refuted(Rule::kMeaning, rank,
                     "reads elements from " + std::to_string(content.origin / element) + " of " +
                         in_quotes(tensors_[held->tensor]) + " where elements from " +
                         std::to_string(expected / element) + " of " + in_quotes(slot) + " should be");
    if (held->version != 0) return refuted(Rule::kMeaning, rank, "reads " + in_quotes(slot) + " after its update");
    expected += piece.bytes;
  }
  return check_part(rank, slice, bytes / element, tensor, slot, seen);
}

Status Flow::read_scalar(Rank& rank, const BufferRange& where, int64_t bytes, int32_t label, const std::string& slot,
                         Seen& seen) {
  scratch_.clear();
  rank.contents.take(where, bytes, scratch_);
  const StepNumber number = ledger_.labels.number(label);
  if (number == StepNumber::kLossScale) {
    seen.scaled = true;
    return is_loss_scale(scratch_) ? Status()
                                   : refuted(Rule::kMeaning, rank, "reads what is no loss scale of this step");
  }
  for (const auto& piece : scratch_) {
    const auto* const value = piece.content.as<Value>();
    if (value == nullptr || (value->label >= 0 && value->label != label))
      return refuted(Rule::kMeaning, rank, "reads something else where " + in_quotes(slot) + " should be");
    PIPER_RETURN_IF_ERROR(check_spread(rank, static_cast<int32_t>(value->spread), Places::kWhole, slot));
    if (value->samples != 0)
      return refuted(Rule::kMeaning, rank, "reads samples where " + in_quotes(slot) + " should be");
    if (scratch_.size() != 1 || piece.content.origin != 0 || value->bytes != bytes)
      return refuted(Rule::kMeaning, rank, "reads a part of something where " + in_quotes(slot) + " should be");
  }
  if (number != StepNumber::kLearningRate && number != StepNumber::kSeedStep && number != StepNumber::kSampleOffset &&
      number != StepNumber::kPlace)
    return {};
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
  const auto* const constant = scratch_[0].content.as<Constant>();
  if (scratch_.size() != 1 || constant == nullptr || scratch_[0].content.origin != 0)
    return refuted(Rule::kMeaning, rank, "reads what is no constant where " + in_quotes(slot) + " should be");
  // All runs of a program read the same.
  if (bound.what < 0) bound.what = constant->name;
  if (bound.what != constant->name)
    return refuted(Rule::kMeaning, rank,
                   "reads constant " + in_quotes(constants_[constant->name]) + " as " + in_quotes(slot) +
                       ", other runs of the program " + in_quotes(constants_[bound.what]));
  return {};
}

Status Flow::on_statistic(Rank& rank, const BufferRange& where, const ProgramEffects::Bound& bound, bool updates,
                          const Seen& seen, const std::string& slot) {
  auto* segment = rank.contents.buffer(where.buffer).whole(where.offset, where.offset + bound.bytes);
  auto* const statistic = segment != nullptr ? segment->content.as<Statistic>() : nullptr;
  if (statistic == nullptr || statistic->tensor != bound.what ||
      segment->content.origin + where.offset != segment->begin)
    return refuted(Rule::kMeaning, rank,
                   "has something else where the running statistic " + in_quotes(slot) + " should be");
  if (!updates) return {};
  auto& taken = statistic->samples;
  const auto& before = ledger_.samples.ranges(taken);
  const auto& more = ledger_.samples.ranges(seen.samples);
  if (!before.empty() && !more.empty() && before.back().first + before.back().count > more.front().first)
    return refuted(Rule::kUpdates, rank,
                   "updates the running statistic " + in_quotes(slot) + " by " + text(more) + " after " + text(before));
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
    case Do::kClear: rank.contents.put(where, bytes, {Zero()}); return {};
    case Do::kConsume: {
      scratch_.clear();
      rank.contents.take(where, bytes, scratch_);
      bool any = false;
      int64_t done = 0;
      for (const auto& piece : scratch_) {
        const auto* const sum = piece.content.as<Sum>();
        if (sum == nullptr || piece.content.origin != std::exchange(done, done + piece.bytes))
          return refuted(Rule::kSums, rank, "uses " + in_quotes(slot) + ", to all of which nothing was added");
        any = true;
        for (const auto& [addend, samples] : ledger_.terms(*sum)) {
          if (const std::string& added = ledger_.addends[addend].slot; added != slot)
            return refuted(Rule::kSums, rank, "uses " + in_quotes(slot) + " with what is added to " + in_quotes(added));
          if (ledger_.addends[addend].tensor >= 0)
            return refuted(Rule::kSums, rank, "reads the gradient " + in_quotes(slot) + ", which only updates may use");
        }
        if (const auto wrong = use_sum(slot, *sum); !wrong.empty())
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
  // Runs that read no sample are counted by what their program says: together they are of each sample of the step once.
  int32_t samples = seen.samples;
  if (samples == 0 && seen.of_piece > 0) {
    asked_for_all_ = true;
    int64_t& counted = samples_unread_[{what.addend, rank.kept}];
    samples = ledger_.samples.range(counted, seen.of_piece);
    counted += seen.of_piece;
  }
  if (const int32_t share = ledger_.addends[what.addend].share; share >= 0) {
    const int32_t place = places_.place(share, rank.plan->rank);
    if (place < 0)
      return refuted(Rule::kMeaning, rank, "adds a share to " + in_quotes(slot) + " and is in no group of its cut");
    if (!seen.by_place) samples = ledger_.share_of_samples(samples, place);
  } else if (seen.by_place) {
    return refuted(Rule::kSums, rank,
                   "adds rows of several places to " + in_quotes(slot) + ", a sum over samples alone");
  }
  Content more = ledger_.sum(what.addend, samples, base);
  more.layout = layout.leaves;
  if (what.act == Do::kAssign) {
    rank.contents.put(where, bytes, more);
    return {};
  }
  for (auto& segment : rank.contents.cut(where, bytes)) {
    auto& content = segment.content;
    const int64_t origin = base + segment.begin - where.offset;
    if (content.is<Zero>()) {
      content.relied = content.start;
      rank.contents.replaced(where.buffer, segment);
      content = more;
      content.origin = origin;
      continue;
    }
    if (!content.is<Sum>()) return refuted(Rule::kSums, rank, "adds " + in_quotes(slot) + " to what is no sum");
    if (content.layout != more.layout)
      return refuted(Rule::kSums, rank, "adds " + in_quotes(slot) + " to a sum of elements of another type");
    if (content.origin != origin)
      return refuted(Rule::kSums, rank, "adds " + in_quotes(slot) + " to a sum over other elements");
    ledger_.add(content, what.addend, samples);
  }
  return {};
}

std::string Flow::use_sum(const std::string& name, const Sum& sum) {
  asked_for_all_ = true;
  for (const auto& term : ledger_.terms(sum))
    if (ledger_.addends[term.first].chunk.empty() && !bundle_.reference.empty())
      return "a value that no program adds to it";
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
  const auto name = [&](int32_t index) -> const std::string& { return effects.slots[static_cast<size_t>(index)]; };
  const auto where = [&](int32_t index) -> const BufferRange& { return arguments[static_cast<size_t>(index)]; };
  const SlotLayouts& layouts = slots_[static_cast<size_t>(run.program)];
  for (const auto* list :
       {&effects.reads, &effects.scalars, &effects.parameters, &effects.constants, &effects.statistics})
    for (const auto& bound : *list)
      PIPER_RETURN_IF_ERROR(check_layout(rank, where(bound.slot), bound.bytes,
                                         layouts[static_cast<size_t>(bound.slot)].reads, name(bound.slot)));
  Seen seen;
  if (program.of) seen.of_piece = program.of->samples;
  const auto spread = [&](int32_t index) { return spread_of(rank, program.slots[static_cast<size_t>(index)]); };
  for (const auto& bound : effects.reads)
    PIPER_RETURN_IF_ERROR(read_value(rank, where(bound.slot), bound, spread(bound.slot), name(bound.slot), seen));
  int64_t num_samples = 0;
  for (const SampleRange& range : ledger_.samples.ranges(seen.samples)) num_samples += range.count;
  if (program.of && seen.samples != 0 && seen.parts <= 1 && !seen.by_place && num_samples != program.of->samples)
    return refuted(Rule::kMeaning, rank,
                   "reads " + text(ledger_.samples.ranges(seen.samples)) + ", and its program is for " +
                       std::to_string(program.of->samples));
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
    Value value{.bytes = bytes, .label = label, .samples = seen.samples, .parts = seen.parts, .at = seen.at};
    value.spread = spread(index);
    value.scaled = seen.scaled;
    value.by_place = seen.by_place;
    if (value.spread < 0) return check_spread(rank, 0, -1, name(index));
    rank.contents.put(where(index), bytes, {.what = value, .layout = layouts[static_cast<size_t>(index)].leaves});
  }
  return {};
}

}  // namespace piper::verify
