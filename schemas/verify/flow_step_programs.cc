// Programs of the step, which add, clear, clip and count: they are followed call by call, through their workspace.
#include "schemas/plan/names.h"
#include "schemas/verify/describe.h"
#include "schemas/verify/flow.h"

namespace piper::verify {

using namespace plan;

class Flow::StepProgram {
 public:
  StepProgram(Flow& flow, Rank& rank, const Program& program, const std::vector<BufferRange>& arguments)
      : flow_(flow),
        rank_(rank),
        arguments_(arguments),
        workspace_(std::max<int64_t>(program.workspace_bytes, 1), memory_) {}

  Status follow(const ProgramEffects& effects) {
    for (const ProgramEffects::Call& call : effects.calls) PIPER_RETURN_IF_ERROR(follow(call));
    return std::move(mistaken_);
  }

 private:
  using Place = ProgramEffects::Place;
  using Call = ProgramEffects::Call;
  using Op = ProgramEffects::Op;

  Status follow(const Call& call) {
    const bool counts = call.op == Op::kAdvance || call.op == Op::kAdvanceLossScale;
    for (const Place& output : call.outputs) PIPER_RETURN_IF_ERROR(check_written(output, counts));
    switch (call.op) {
      case Op::kAdvance:
      case Op::kAdvanceLossScale: return advance(call);
      case Op::kClear: put(call.outputs[0], {{call.outputs[0].bytes, {Zero()}}}); return {};
      case Op::kCopy:  // bytes, whatever they are elements of
        read(call.inputs[0], a_);
        put(call.outputs[0], a_);
        return {};
      case Op::kAdd:
        take(call.inputs[0], a_);
        take(call.inputs[1], b_);
        return sum_into(call.outputs[0], flow_.ledger_.add(a_, b_, sum_));
      case Op::kAddInto:
        take(call.outputs[0], a_);
        take(call.inputs[0], b_);
        return sum_into(call.outputs[0], flow_.ledger_.add(a_, b_, sum_));
      case Op::kSquareSum:
      case Op::kOverflows: {
        take(call.inputs[0], a_);
        take(call.outputs[0], sum_);
        const auto measure = call.op == Op::kSquareSum ? Ledger::Measure::kNorm : Ledger::Measure::kOverflow;
        PIPER_RETURN_IF_ERROR(sum_into(call.outputs[0], flow_.ledger_.add_measured(measure, a_, sum_)));
        return wrong_sum(flow_.note_measured(rank_, a_));
      }
      case Op::kUnscale: return unscale(call);
      case Op::kClip: return clip(call);
    }
    return {};
  }

  // --- bytes of slots and of the workspace
  BufferRange bound(const Place& place) const {
    BufferRange where = arguments_[static_cast<size_t>(place.slot)];
    where.offset += place.offset;
    return where;
  }
  void read(const Place& place, Pieces& pieces) {
    pieces.clear();
    if (place.slot < 0) workspace_.read(place.offset, place.offset + place.bytes, pieces);
    else rank_.contents.take(bound(place), place.bytes, pieces);
  }
  // As elements of the place's type.
  void take(const Place& place, Pieces& pieces) {
    read(place, pieces);
    if (mistaken_.ok()) mistaken_ = flow_.check_elements(rank_, pieces, place.dtype);
  }
  void put(const Place& place, const Pieces& pieces) {
    if (place.slot < 0) workspace_.write(place.offset, pieces);
    else rank_.contents.put(bound(place), pieces);
  }

  // What outlasts a step is brought forward by counting and updates alone.
  Status check_written(const Place& place, bool counts) const {
    if (place.slot < 0) return {};
    const Buffer& buffer = rank_.plan->buffers[static_cast<size_t>(bound(place).buffer)];
    const bool right = counts ? buffer.cls == BufferClass::kTraining
                              : buffer.cls == BufferClass::kArena || buffer.cls == BufferClass::kGradient;
    return right ? Status()
                 : flow_.refuted(Rule::kUpdates, rank_,
                                 "writes " + in_quotes(buffer.name) + ", which is kept for something else");
  }

  // --- calls
  Status wrong_sum(const std::string& wrong) const {
    return wrong.empty() ? Status() : flow_.refuted(Rule::kSums, rank_, wrong);
  }
  Status sum_into(const Place& place, const std::string& wrong) {
    PIPER_RETURN_IF_ERROR(wrong_sum(wrong));
    put(place, sum_);
    return {};
  }

  // Outputs: the optimizer's step; or the loss scale and the steps without an overflow, by whether there was one.
  Status advance(const Call& call) {
    const bool by_scale = call.op == Op::kAdvanceLossScale;
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      take(call.outputs[i], a_);
      const bool is_scale = by_scale && i == 0;
      for (Piece& piece : a_) {
        auto* const counter = piece.content.as<Counter>();
        if (counter == nullptr || counter->advanced || (counter->of == Counter::Of::kLossScale) != is_scale)
          return flow_.refuted(Rule::kUpdates, rank_, "counts what is no counter, or counted before in this step");
        counter->advanced = true;
        if (by_scale && !is_scale) counter->of = Counter::Of::kGoodSteps;
      }
      put(call.outputs[i], a_);
    }
    if (call.inputs.empty() == flow_.scales())
      return flow_.refuted(Rule::kUpdates, rank_,
                           flow_.scales() ? "counts steps that are skipped" : "skips steps of unscaled gradients");
    if (call.inputs.empty()) return {};
    take(call.inputs[0], a_);
    return wrong_sum(flow_.take_overflow(rank_, a_));
  }

  // What is read as the loss scale must be that of this step.
  Status check_scale(const Place& scale, Pieces& pieces) {
    take(scale, pieces);
    return wrong_sum(is_loss_scale(pieces) ? "" : "unscales by what is no loss scale of this step");
  }
  void put_clip(const Place& place, Clip clip) {
    put(place, {{place.bytes, {.what = clip, .layout = layout_of(DType::kF32)}}});
  }
  Status unscale(const Call& call) {
    PIPER_RETURN_IF_ERROR(check_scale(call.inputs[0], a_));
    put_clip(call.outputs[0], {Clip::Is::kUnscaling, true});
    return {};
  }
  // Outputs: the norm of all gradients, and the factor that clips by it.
  Status clip(const Call& call) {
    take(call.inputs[0], a_);
    int32_t norm = 0;
    const std::string wrong = flow_.ledger_.measured(Ledger::Measure::kNorm, a_, norm);
    flow_.measured_.emplace(norm, flow_.place_of(rank_));
    const bool unscales = call.inputs.size() > 1;
    if (unscales) PIPER_RETURN_IF_ERROR(check_scale(call.inputs[1], b_));
    put_clip(call.outputs[0], {Clip::Is::kNorm, unscales});
    put_clip(call.outputs[1], {Clip::Is::kFactor, unscales});
    return wrong_sum(wrong);
  }

  Flow& flow_;
  Rank& rank_;
  const std::vector<BufferRange>& arguments_;
  BufferContents::Memory memory_;
  BufferContents workspace_;  // in `memory_`
  Status mistaken_;           // the first: elements of one type for those of another
  Pieces a_, b_, sum_;
};

Flow::Place Flow::place_of(const Rank& rank) const {
  return {static_cast<size_t>(&rank - ranks_.data()), static_cast<int32_t>(rank.next)};
}

// Whether each rank skips by all gradients is a matter of the end of the step.
std::string Flow::take_overflow(const Rank& rank, const Pieces& pieces) {
  int32_t overflow = 0;
  const std::string wrong = ledger_.measured(Ledger::Measure::kOverflow, pieces, overflow);
  measured_.emplace(overflow, place_of(rank));
  return wrong;
}

std::string Flow::note_measured(const Rank& rank, const Pieces& gradients) {
  for (const Piece& piece : gradients) {
    const auto* const gradient = piece.content.as<Sum>();
    if (gradient == nullptr) continue;
    std::vector<int32_t> addends;
    for (const auto& term : ledger_.terms(*gradient)) addends.push_back(term.first);
    const int32_t tensor = ledger_.addends[addends[0]].tensor;
    const auto& first = measured_gradients_.emplace(tensor, TakenGradient{addends, place_of(rank)}).first->second;
    if (first.addends != addends)
      return "measures a gradient of \"" + tensors_[tensor] + "\" with other addends than " +
             describe_instruction(bundle_, *ranks_[first.by.rank].plan, static_cast<size_t>(first.by.instruction));
  }
  return "";
}

Status Flow::follow(Rank& rank, const ProgramEffects& effects, const Program& program,
                    const std::vector<BufferRange>& arguments) {
  return StepProgram(*this, rank, program, arguments).follow(effects);
}

}  // namespace piper::verify
