// What a step begins with: what the executor has written, and what earlier steps have left.
#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

#include "schemas/plan/names.h"
#include "schemas/verify/describe.h"
#include "schemas/verify/flow.h"
#include "schemas/verify/held_name.h"

namespace piper::verify {

using namespace plan;

namespace {

BufferClass class_of(PlacementKind kind) {
  switch (kind) {
    case PlacementKind::kValue:
    case PlacementKind::kMaster:
    case PlacementKind::kWorking: return BufferClass::kParameter;
    case PlacementKind::kFirstMoment:
    case PlacementKind::kSecondMoment: return BufferClass::kOptimizer;
    case PlacementKind::kState: return BufferClass::kState;
    case PlacementKind::kConstant: return BufferClass::kConstant;
    case PlacementKind::kGradient: break;
  }
  return BufferClass::kGradient;
}

bool is_empty(const RankContents& contents, const BufferRange& where, int64_t bytes) {
  Pieces pieces;
  contents.at(where.buffer).read(where.offset, where.offset + bytes, pieces);
  return std::all_of(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.content.is<Nothing>(); });
}

}  // namespace

class Flow::Begin {
 public:
  Begin(Flow& flow, Rank& rank) : flow_(flow), rank_(rank) {}
  Status all() {
    places();
    PIPER_RETURN_IF_ERROR(inputs());
    PIPER_RETURN_IF_ERROR(scalars());
    return placements();
  }

 private:
  void places();
  Status inputs();
  Status scalars();
  Status placements();
  std::string wrong_type(const Placement& placement);

  Flow& flow_;
  Rank& rank_;
};

Status Flow::begin() {
  for (Rank& rank : ranks_) PIPER_RETURN_IF_ERROR(Begin(*this, rank).all());
  return places_.fit() ? Status() : violates(Rule::kMeaning, "the cuts have more places than contents can name");
}

// For a tensor that is cut programs see the part of the rank's place.
void Flow::Begin::places() {
  if (!flow_.places_.any()) return;
  rank_.kept = flow_.places_.kept(rank_.plan->rank);
  const auto& tensors = flow_.bundle_.manifest.tensors;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const auto& cut = tensors[t].cut;
    const int32_t place = cut ? flow_.places_.place(cut->cut, rank_.plan->rank) : -1;
    if (place < 0) continue;
    const int64_t places = flow_.bundle_.manifest.cuts[static_cast<size_t>(cut->cut)].places();
    rank_.contents.slice[t] = flow_.num_elements_[t] / places * place;
  }
}

Status Flow::Begin::inputs() {
  for (const auto& slice : rank_.plan->inputs) {
    const auto declared = std::find_if(flow_.bundle_.manifest.inputs.begin(), flow_.bundle_.manifest.inputs.end(),
                                       [&](const auto& input) { return input.name == slice.input; });
    const auto wrong = [&](const std::string& what) {
      return violates(Rule::kMeaning, describe_rank(*rank_.plan) + ": input " + in_quotes(slice.input) + ": " + what);
    };
    if (declared == flow_.bundle_.manifest.inputs.end()) return wrong("the model has none of this name");
    int64_t bytes = dtype_bytes(declared->dtype);
    for (const int64_t extent : declared->sample_shape) bytes *= extent;
    if (declared->batched) {
      if (slice.count <= 0 || slice.first < 0 || slice.first + slice.count > flow_.bundle_.manifest.batch)
        return wrong("samples outside of the step's batch");
      bytes *= slice.count;
    }
    const auto& buffer = rank_.plan->buffers[static_cast<size_t>(slice.where.buffer)];
    if (slice.where.offset + bytes > buffer.bytes)
      return wrong("its samples do not fit into buffer " + in_quotes(buffer.name));
    if (buffer.cls != BufferClass::kInput)
      return wrong("its samples go into " + in_quotes(buffer.name) + ", which is not for inputs");
    for (const auto& segment : rank_.contents.at(slice.where.buffer).segments())
      if (segment.end > slice.where.offset && segment.begin < slice.where.offset + bytes &&
          !segment.content.is<Nothing>())
        return wrong("its samples go into " + in_quotes(buffer.name) + " over others");
    const Value value = {
        .bytes = bytes,
        .label = flow_.ledger_.labels.id(slice.input),
        .samples = declared->batched ? flow_.ledger_.samples.range(slice.first, slice.count) : 0,
        .parts = 1,  // samples one after the other: unlike those of other values, parts of it are parts of the samples
    };
    rank_.contents.begin(slice.where, bytes, {.what = value, .layout = layout_of(declared->dtype)});
  }
  return {};
}

// Scalars that the executor fills have the label of what it fills in; one that the plan sets is the
// position of a first sample, or the rank's place.
Status Flow::Begin::scalars() {
  const auto& plan = *rank_.plan;
  const auto check = [&](const BufferRange& where, BufferClass cls, StepNumber number) {
    const Buffer& buffer = plan.buffers[static_cast<size_t>(where.buffer)];
    return buffer.cls == cls
               ? Status()
               : violates(Rule::kMeaning, describe_rank(plan) + " has " + in_quotes(number_name(number)) + " in " +
                                              in_quotes(buffer.name) + ", a buffer of another class");
  };
  const auto call = [&](const BufferRange& where, StepNumber number, DType dtype, int64_t count) -> Status {
    if (where.buffer < 0) return {};
    PIPER_RETURN_IF_ERROR(check(where, BufferClass::kScalar, number));
    const Value value = {.bytes = count * dtype_bytes(dtype),
                         .label = flow_.ledger_.labels.id(held_name(number, 0), number)};
    rank_.contents.begin(where, value.bytes, {.what = value, .layout = layout_of(dtype)});
    return {};
  };
  for (const auto& scalar : plan.scalars) {
    PIPER_RETURN_IF_ERROR(
        call({scalar.buffer, 0}, scalar.holds, DType::kI64, static_cast<int64_t>(scalar.values.size())));
    if (scalar.holds == StepNumber::kPlace &&
        (scalar.values.size() != 1 || !flow_.places_.is_at(scalar.values[0], plan.rank)))
      return violates(Rule::kMeaning, describe_rank(plan) + " is at another place than " +
                                          in_quotes(plan.buffers[static_cast<size_t>(scalar.buffer)].name) + " says");
    if (scalar.holds == StepNumber::kSampleOffset) rank_.scalars.emplace(scalar.buffer, &scalar.values);
  }
  PIPER_RETURN_IF_ERROR(call(plan.seed_step, StepNumber::kSeedStep, DType::kI64, 2));
  PIPER_RETURN_IF_ERROR(call(plan.learning_rate, StepNumber::kLearningRate, DType::kF64, 1));
  if (plan.loss_scale.buffer < 0) return {};
  PIPER_RETURN_IF_ERROR(check(plan.loss_scale, BufferClass::kTraining, StepNumber::kLossScale));
  rank_.contents.begin(plan.loss_scale, dtype_bytes(DType::kF32),
                       {.what = Counter{Counter::Of::kLossScale}, .layout = layout_of(DType::kF32)});
  return {};
}

// All that is kept of a tensor has its type, except working copies, which have one of their own: "" or what is wrong.
std::string Flow::Begin::wrong_type(const Placement& placement) {
  const int32_t tensor = flow_.tensors_.find(placement.name);
  if (placement.kind == PlacementKind::kConstant || tensor < 0) return "";
  const auto t = static_cast<size_t>(tensor);
  const DType own = flow_.bundle_.manifest.tensors[t].dtype;
  if (placement.kind != PlacementKind::kWorking)
    return placement.dtype == own ? "" : "the model has it as " + std::string(dtype_name(own));
  if (placement.dtype == own) return "which is the type of its master";
  if (!flow_.working_types_[t]) flow_.working_types_[t] = placement.dtype;
  return placement.dtype == *flow_.working_types_[t]
             ? ""
             : "elsewhere as " + std::string(dtype_name(*flow_.working_types_[t]));
}

Status Flow::Begin::placements() {
  for (const auto& placement : rank_.plan->placements) {
    Content content;
    content.origin = placement.part.first * dtype_bytes(placement.dtype);
    const Buffer& buffer = rank_.plan->buffers[static_cast<size_t>(placement.part.where.buffer)];
    // A gradient that is assigned anew in each step may lie anywhere.
    if (placement.kind != PlacementKind::kGradient && buffer.cls != class_of(placement.kind))
      return violates(Rule::kUpdates, describe_rank(*rank_.plan) + " places the " + describe_kind(placement.kind) +
                                          " of " + in_quotes(placement.name) + " in " + in_quotes(buffer.name) +
                                          ", a buffer of another class");
    if (const auto wrong = wrong_type(placement); !wrong.empty())
      return violates(Rule::kUpdates, describe_rank(*rank_.plan) + " places the " + describe_kind(placement.kind) +
                                          " of " + in_quotes(placement.name) + " as " +
                                          std::string(dtype_name(placement.dtype)) + ", " + wrong);
    const auto whole = std::accumulate(placement.shape.begin(), placement.shape.end(), int64_t{1}, std::multiplies<>());
    if (placement.kind == PlacementKind::kConstant && (placement.part.first != 0 || placement.part.count != whole))
      return violates(Rule::kUpdates,
                      describe_rank(*rank_.plan) + " places a part of constant " + in_quotes(placement.name));
    content.layout = layout_of(placement.dtype);
    const int64_t element = dtype_bytes(placement.dtype), bytes = placement.part.count * element;
    const int32_t tensor = flow_.tensors_.find(placement.name);
    switch (placement.kind) {
      case PlacementKind::kValue:
      case PlacementKind::kWorking:
      case PlacementKind::kMaster:
        content.what = Parameter{.tensor = tensor,
                                 .element = static_cast<int32_t>(element),
                                 .master = placement.kind == PlacementKind::kMaster};
        break;
      case PlacementKind::kFirstMoment: content.what = OptimizerMoment{tensor, 1}; break;
      case PlacementKind::kSecondMoment: content.what = OptimizerMoment{tensor, 2}; break;
      case PlacementKind::kConstant: content.what = Constant{flow_.constants_.id(placement.name)}; break;
      case PlacementKind::kGradient:
        rank_.gradients.push_back({placement.part.where, bytes, content.origin, tensor});
        continue;
      case PlacementKind::kState: content.what = Statistic{tensor}; break;
    }
    if (placement.kind != PlacementKind::kConstant && tensor < 0)
      return violates(Rule::kUpdates, describe_rank(*rank_.plan) + " places " + in_quotes(placement.name) +
                                          ", which the model does not have");
    if (placement.kind == PlacementKind::kConstant && !is_empty(rank_.contents, placement.part.where, bytes))
      return violates(Rule::kUpdates, describe_rank(*rank_.plan) + " places constant " + in_quotes(placement.name) +
                                          " over another in " + in_quotes(buffer.name));
    rank_.contents.begin(placement.part.where, bytes, content);
  }
  std::sort(rank_.gradients.begin(), rank_.gradients.end(), [](const PlacedGradient& a, const PlacedGradient& b) {
    return std::tie(a.where.buffer, a.where.offset) < std::tie(b.where.buffer, b.where.offset);
  });
  return {};
}

}  // namespace piper::verify
