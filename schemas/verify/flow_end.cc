// What a step begins with and what it must leave for the next.
#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <tuple>

#include "schemas/plan/names.h"
#include "schemas/verify/describe.h"
#include "schemas/verify/flow.h"
#include "schemas/verify/numbers/evaluation.h"

namespace piper::verify {

using namespace plan;
using Kind = Content::Kind;

namespace {

const char* kind_text(PlacementKind kind) {
  switch (kind) {
    case PlacementKind::kFirstMoment: return "first moment";
    case PlacementKind::kSecondMoment: return "second moment";
    case PlacementKind::kGradient: return "gradient";
    case PlacementKind::kMaster: return "master";
    case PlacementKind::kWorking: return "working copy";
    case PlacementKind::kValue:
    case PlacementKind::kState:
    case PlacementKind::kConstant: break;
  }
  return "value";
}
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
std::string rank_name(const RankPlan& plan) { return "rank " + std::to_string(plan.rank); }

}  // namespace

// By which rules the loss scale goes on, all ranks alike.
Status Flow::check_loss_scales() const {
  const Program* first = nullptr;
  std::string rules;
  for (const Program& program : bundle_.programs)
    for (const KernelCall& call : program.calls) {
      if (call.kernel != "advance_loss_scale") continue;
      const std::string own = attrs_text(call);
      if (first == nullptr) first = &program, rules = own;
      if (own != rules)
        return Status::failure("P0638", "rule 10: programs " + quoted(first->name) + " and " + quoted(program.name) +
                                            " bring the loss scale forward by different rules");
    }
  return {};
}

Status Flow::begin() {
  PIPER_RETURN_IF_ERROR(check_loss_scales());
  for (auto& rank : ranks_) {
    PIPER_RETURN_IF_ERROR(begin_inputs(rank));
    PIPER_RETURN_IF_ERROR(begin_scalars(rank));
    PIPER_RETURN_IF_ERROR(begin_placements(rank));
  }
  return {};
}

Status Flow::begin_inputs(Rank& rank) {
  for (const auto& slice : rank.plan->inputs) {
    const auto declared = std::find_if(bundle_.manifest.inputs.begin(), bundle_.manifest.inputs.end(),
                                       [&](const auto& input) { return input.name == slice.input; });
    const auto wrong = [&](const std::string& what) {
      return Status::failure("P0637",
                             "rule 9: " + rank_name(*rank.plan) + ": input " + quoted(slice.input) + ": " + what);
    };
    if (declared == bundle_.manifest.inputs.end()) return wrong("the model has none of this name");
    int64_t bytes = dtype_bytes(declared->dtype);
    for (const int64_t extent : declared->sample_shape) bytes *= extent;
    if (declared->batched) {
      if (slice.count <= 0 || slice.first < 0 || slice.first + slice.count > bundle_.manifest.batch)
        return wrong("samples outside of the step's batch");
      bytes *= slice.count;
    }
    const auto& buffer = rank.plan->buffers[static_cast<size_t>(slice.where.buffer)];
    if (slice.where.offset + bytes > buffer.bytes)
      return wrong("its samples do not fit into buffer " + quoted(buffer.name));
    if (buffer.cls != BufferClass::kInput)
      return wrong("its samples go into " + quoted(buffer.name) + ", which is not for inputs");
    for (const auto& segment : rank.contents.at(slice.where.buffer).segments())
      if (segment.end > slice.where.offset && segment.begin < slice.where.offset + bytes &&
          segment.content.kind != Kind::kNothing)
        return wrong("its samples go into " + quoted(buffer.name) + " over others");
    Content value;
    value.kind = Kind::kValue;
    value.what = ledger_.labels.id(slice.input);
    value.how = declared->batched ? ledger_.samples.range(slice.first, slice.count) : 0;
    value.size = bytes;
    value.layout = layout_of(declared->dtype);
    value.parts = 1;  // samples one after the other: unlike those of other values, parts of it are parts of the samples
    rank.contents.begin(slice.where, bytes, value);
  }
  return {};
}

// Scalars that the executor fills are called after what it fills in; one that the plan sets is the
// position of a first sample.
Status Flow::begin_scalars(Rank& rank) {
  const auto& plan = *rank.plan;
  const auto check = [&](const BufferRange& where, BufferClass cls, const char* name) {
    const Buffer& buffer = plan.buffers[static_cast<size_t>(where.buffer)];
    return buffer.cls == cls ? Status()
                             : Status::failure("P0637", "rule 9: " + rank_name(plan) + " has " + quoted(name) + " in " +
                                                            quoted(buffer.name) + ", a buffer of another class");
  };
  const auto call = [&](const BufferRange& where, const char* name, DType dtype, int64_t count) -> Status {
    if (where.buffer < 0) return {};
    PIPER_RETURN_IF_ERROR(check(where, BufferClass::kScalar, name));
    Content value;
    value.kind = Kind::kValue;
    value.what = ledger_.labels.id(name);
    value.size = count * dtype_bytes(dtype);
    value.layout = layout_of(dtype);
    rank.contents.begin(where, value.size, value);
    return {};
  };
  for (const auto& scalar : plan.scalars) {
    PIPER_RETURN_IF_ERROR(
        call({scalar.buffer, 0}, "sample_offset", DType::kI64, static_cast<int64_t>(scalar.values.size())));
    rank.scalars.emplace(scalar.buffer, &scalar.values);
  }
  PIPER_RETURN_IF_ERROR(call(plan.seed_step, "seed_step", DType::kI64, 2));
  PIPER_RETURN_IF_ERROR(call(plan.learning_rate, "learning_rate", DType::kF64, 1));
  if (plan.loss_scale.buffer < 0) return {};
  PIPER_RETURN_IF_ERROR(check(plan.loss_scale, BufferClass::kTraining, "loss_scale"));
  Content scale;
  scale.kind = Kind::kCounter;
  scale.what = 1;
  scale.layout = layout_of(DType::kF32);
  rank.contents.begin(plan.loss_scale, dtype_bytes(DType::kF32), scale);
  return {};
}

// All that is kept of a tensor has its type, but for working copies, which have one of their own: "" or what is wrong.
std::string Flow::wrong_type(const Placement& placement) {
  const int32_t tensor = tensors_.find(placement.name);
  if (placement.kind == PlacementKind::kConstant || tensor < 0) return "";
  const auto t = static_cast<size_t>(tensor);
  const DType own = bundle_.manifest.tensors[t].dtype;
  if (placement.kind != PlacementKind::kWorking)
    return placement.dtype == own ? "" : "the model has it as " + std::string(dtype_name(own));
  if (placement.dtype == own) return "which is the type of its master";
  if (!working_types_[t]) working_types_[t] = placement.dtype;
  return placement.dtype == *working_types_[t] ? "" : "elsewhere as " + std::string(dtype_name(*working_types_[t]));
}

Status Flow::begin_placements(Rank& rank) {
  for (const auto& placement : rank.plan->placements) {
    Content content;
    content.origin = placement.part.first * dtype_bytes(placement.dtype);
    const Buffer& buffer = rank.plan->buffers[static_cast<size_t>(placement.part.where.buffer)];
    // A gradient that is assigned anew in each step may lie anywhere.
    if (placement.kind != PlacementKind::kGradient && buffer.cls != class_of(placement.kind))
      return Status::failure("P0638", "rule 10: " + rank_name(*rank.plan) + " places the " + kind_text(placement.kind) +
                                          " of " + quoted(placement.name) + " in " + quoted(buffer.name) +
                                          ", a buffer of another class");
    if (const auto wrong = wrong_type(placement); !wrong.empty())
      return Status::failure("P0638", "rule 10: " + rank_name(*rank.plan) + " places the " + kind_text(placement.kind) +
                                          " of " + quoted(placement.name) + " as " +
                                          std::string(dtype_name(placement.dtype)) + ", " + wrong);
    const auto whole = std::accumulate(placement.shape.begin(), placement.shape.end(), int64_t{1}, std::multiplies<>());
    if (placement.kind == PlacementKind::kConstant && (placement.part.first != 0 || placement.part.count != whole))
      return Status::failure(
          "P0638", "rule 10: " + rank_name(*rank.plan) + " places a part of constant " + quoted(placement.name));
    content.size = dtype_bytes(placement.dtype);
    content.layout = layout_of(placement.dtype);
    switch (placement.kind) {
      case PlacementKind::kValue:
      case PlacementKind::kWorking: content.kind = Kind::kParameter; break;
      case PlacementKind::kMaster: content.kind = Kind::kMaster; break;
      case PlacementKind::kFirstMoment:
      case PlacementKind::kSecondMoment:
        content.kind = Kind::kMoment;
        content.how = placement.kind == PlacementKind::kFirstMoment ? 1 : 2;
        break;
      case PlacementKind::kConstant: content.kind = Kind::kConstant; break;
      case PlacementKind::kGradient:
        rank.gradients.push_back({placement.part.where, placement.part.count * dtype_bytes(placement.dtype),
                                  content.origin, tensors_.find(placement.name)});
        continue;
      case PlacementKind::kState: content.kind = Kind::kStatistic; break;
    }
    content.what = content.kind == Kind::kConstant ? constants_.id(placement.name) : tensors_.find(placement.name);
    if (content.what < 0)
      return Status::failure("P0638", "rule 10: " + rank_name(*rank.plan) + " places " + quoted(placement.name) +
                                          ", which the model does not have");
    rank.contents.begin(placement.part.where, placement.part.count * dtype_bytes(placement.dtype), content);
  }
  std::sort(rank.gradients.begin(), rank.gradients.end(), [](const PlacedGradient& a, const PlacedGradient& b) {
    return std::tie(a.where.buffer, a.where.offset) < std::tie(b.where.buffer, b.where.offset);
  });
  return {};
}

Status Flow::check_end() {
  std::sort(updated_elements_.begin(), updated_elements_.end());
  PIPER_RETURN_IF_ERROR(bundle_.manifest.evaluates ? check_means() : check_loss());
  PIPER_RETURN_IF_ERROR(check_dropped());
  PIPER_RETURN_IF_ERROR(check_addends());
  PIPER_RETURN_IF_ERROR(check_all_added());
  for (const auto& rank : ranks_) {
    PIPER_RETURN_IF_ERROR(check_next_step(rank));
    if (!bundle_.manifest.evaluates) PIPER_RETURN_IF_ERROR(check_counters(rank));
    PIPER_RETURN_IF_ERROR(check_overflow(rank));
  }
  PIPER_RETURN_IF_ERROR(check_measures());
  PIPER_RETURN_IF_ERROR(check_statistics());
  if (!bundle_.manifest.evaluates) PIPER_RETURN_IF_ERROR(check_all_trained());
  return bundle_.manifest.evaluates ? Status() : check_owners();  // what it reads, its training saves
}

// The reported loss is a sum over all samples, the reported norm one of the gradients.
Status Flow::check_loss() {
  const auto reporting = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
    return rank.plan->rank == bundle_.manifest.reporting_rank;
  });
  const bool has_loss = reporting != ranks_.end() && reporting->plan->loss.buffer >= 0;
  if (!has_loss)
    return first_adder_.empty() ? Status() : Status::failure("P0636", "rule 8: the reporting rank has no loss");
  Pieces pieces, sum;
  reporting->contents.take(reporting->plan->loss, 4, pieces);
  // A value called "loss" may be one where nothing says what the model's is.
  const bool added = pieces.size() == 1 && (pieces[0].content.kind == Kind::kSum || bundle_.reference.empty());
  std::string wrong = added ? ledger_.add({{4, Content{Kind::kZero}}}, pieces, sum) : "is never computed";
  if (wrong.empty() && sum[0].content.kind != Kind::kSum) wrong = "is never computed";
  else if (wrong.empty())
    if (wrong = use_sum("loss", sum[0].content); !wrong.empty()) wrong = "has " + wrong;
  if (wrong.empty())
    for (const auto& [addend, samples] : ledger_.terms(sum[0].content))
      if (ledger_.addends[addend].slot != "loss") wrong = "holds " + quoted(ledger_.addends[addend].slot);
  if (!wrong.empty())
    return Status::failure("P0636", "rule 8: the loss that " + rank_name(*reporting->plan) + " reports " + wrong);
  orders_.loss = ledger_.order(sum[0].content);
  if (reporting->plan->grad_norm.buffer < 0) return {};
  pieces.clear();
  reporting->contents.take(reporting->plan->grad_norm, 4, pieces);
  const bool norm = pieces[0].content.kind == Kind::kClip && pieces[0].content.what == 0;
  return norm ? Status()
              : Status::failure("P0636",
                                "rule 8: " + rank_name(*reporting->plan) + " reports what is no norm of the gradients");
}

// Of an evaluation: each reported sum and each count is one over all samples.
Status Flow::check_means() {
  const auto reporting = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
    return rank.plan->rank == bundle_.manifest.reporting_rank;
  });
  if (reporting == ranks_.end() || reporting->plan->means.empty())
    return Status::failure("P0636", "rule 8: the reporting rank has no mean");
  std::set<std::string> reported;
  for (const Mean& mean : reporting->plan->means)
    for (const BufferRange& where : {mean.sum, mean.count}) {
      if (where.buffer < 0) continue;
      Pieces pieces;
      reporting->contents.take(where, dtype_bytes(DType::kF32), pieces);
      const bool is_sum = pieces.size() == 1 && pieces[0].content.kind == Kind::kSum;
      std::string wrong = is_sum ? "" : "is never computed";
      if (is_sum) {
        const std::string slot = ledger_.addends[ledger_.terms(pieces[0].content)[0].first].slot;
        const std::string lacks = use_sum(slot, pieces[0].content);
        if (!lacks.empty()) wrong = "has " + lacks;
        else if (!reported.insert(slot).second) wrong = "is reported twice";
      }
      if (wrong.empty()) continue;
      const std::string& name = reporting->plan->buffers[static_cast<size_t>(where.buffer)].name;
      return Status::failure(
          "P0636", "rule 8: " + quoted(name) + ", which " + rank_name(*reporting->plan) + " reports, " + wrong);
    }
  return {};
}

// The reported number of dropped rows is a sum over all samples of such numbers.
Status Flow::check_dropped() {
  const auto reporting = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
    return rank.plan->rank == bundle_.manifest.reporting_rank;
  });
  if (reporting == ranks_.end() || reporting->plan->dropped.buffer < 0) return {};
  const auto wrong = [&](const std::string& what) {
    return Status::failure(
        "P0636", "rule 8: the number of dropped rows that " + rank_name(*reporting->plan) + " reports " + what);
  };
  Pieces pieces;
  reporting->contents.take(reporting->plan->dropped, dtype_bytes(DType::kI64), pieces);
  if (pieces.size() != 1 || pieces[0].content.kind != Kind::kSum) return wrong("is never computed");
  for (const auto& [addend, sum] : ledger_.terms(pieces[0].content))
    if (ledger_.addends[addend].slot != "dropped") return wrong("holds \"" + ledger_.addends[addend].slot + "\"");
  const std::string missing = use_sum("dropped", pieces[0].content);
  return missing.empty() ? Status() : wrong("has " + missing);
}

// Whatever is added somewhere reaches an update, a count or the loss.
Status Flow::check_addends() const {
  for (size_t a = 0; a < first_adder_.size(); ++a) {
    if (first_adder_[a].instruction < 0 || (a < ledger_.used().size() && ledger_.used()[a])) continue;
    const auto& addend = ledger_.addends[static_cast<int32_t>(a)];
    return Status::failure("P0636", "rule 8: nothing uses what " +
                                        describe_instruction(bundle_, *ranks_[first_adder_[a].rank].plan,
                                                             static_cast<size_t>(first_adder_[a].instruction)) +
                                        " adds to " + quoted(addend.slot));
  }
  return {};
}

// A result holds what every chunk adds to it: of a gradient all addends of its tensor, of a sum all of its name.
Status Flow::check_all_added() const {
  for (size_t a = 0; a < first_adder_.size(); ++a) {
    if (first_adder_[a].instruction < 0) continue;
    const auto id = static_cast<int32_t>(a);
    const Addend& addend = ledger_.addends[id];
    const std::vector<int32_t>* held = nullptr;
    if (const auto updated = updated_.find(addend.tensor); updated != updated_.end()) held = &updated->second.addends;
    else if (const auto used = used_sums_.find(addend.slot); addend.tensor < 0 && used != used_sums_.end())
      held = &used->second;
    if (held == nullptr || std::find(held->begin(), held->end(), id) != held->end()) continue;
    return Status::failure("P0636", "rule 8: " + quoted(addend.slot) + " is used without what " +
                                        describe_instruction(bundle_, *ranks_[first_adder_[a].rank].plan,
                                                             static_cast<size_t>(first_adder_[a].instruction)) +
                                        " adds to it");
  }
  return {};
}

// What the step found and used, the next step finds too: gradients cleared, trained parameters updated.
Status Flow::check_next_step(const Rank& rank) const {
  const auto& plan = *rank.plan;
  const auto check = [&](int32_t index, int64_t begin, int64_t end, const Content& found) -> Status {
    const auto& buffer = plan.buffers[static_cast<size_t>(index)];
    Pieces left;
    rank.contents.at(index).read(begin, end, left);
    int64_t origin = found.origin;
    for (const auto& piece : left) {
      const auto& content = piece.content;
      if (found.kind == Kind::kZero && content.kind != Kind::kZero)
        return Status::failure("P0636", "rule 8: " + rank_name(plan) + " adds to " + quoted(buffer.name) +
                                            " from zero on, but leaves it uncleared for the next step");
      if (found.kind == Kind::kParameter || found.kind == Kind::kMaster) {
        const bool trained = updated_.count(found.what) > 0;
        if (content.kind != found.kind || content.what != found.what || content.origin != origin ||
            content.how != (trained ? 1 : 0))
          return Status::failure("P0638", "rule 10: " + rank_name(plan) + " reads " + quoted(tensors_[found.what]) +
                                              " in " + quoted(buffer.name) + ", but leaves elements from " +
                                              std::to_string(origin / std::max<int64_t>(found.size, 1)) +
                                              " on without their update for the next step");
      }
      origin += piece.bytes;
    }
    return {};
  };
  for (const auto& replaced : rank.contents.replaced())
    PIPER_RETURN_IF_ERROR(check(replaced.buffer, replaced.begin, replaced.end, replaced.content));
  for (size_t b = 0; b < plan.buffers.size(); ++b)
    for (const auto& segment : rank.contents.at(static_cast<int32_t>(b)).segments())
      if (segment.content.relied)
        PIPER_RETURN_IF_ERROR(check(static_cast<int32_t>(b), segment.begin, segment.end, segment.content));
  for (const auto& gradient : rank.gradients)
    if (gradient.tensor >= 0 && updated_.count(gradient.tensor) > 0 && gradient.taken != gradient.bytes)
      return Status::failure("P0638", "rule 10: " + rank_name(plan) + " places a gradient of " +
                                          quoted(tensors_[gradient.tensor]) + " that no update takes");
  if (scales()) {
    Pieces scale;
    const int64_t at = plan.loss_scale.offset;
    if (plan.loss_scale.buffer >= 0)
      rank.contents.at(plan.loss_scale.buffer).read(at, at + dtype_bytes(DType::kF32), scale);
    const Content content = scale.empty() ? Content() : scale[0].content;
    if (content.kind != Kind::kCounter || content.what != 1 || content.how != 1)
      return Status::failure("P0638", "rule 10: the loss scale of " + rank_name(plan) + " does not follow the step");
  }
  for (const auto& placement : plan.placements) {
    const int32_t tensor = tensors_.find(placement.name);
    const bool updated = updated_.count(tensor) > 0;
    // A tensor with an accumulator is trained.
    if (tensor >= 0 && placement.kind == PlacementKind::kGradient && !updated)
      return Status::failure("P0638", "rule 10: " + rank_name(plan) + " has a gradient of " + quoted(placement.name) +
                                          ", but nothing updates it");
    PIPER_RETURN_IF_ERROR(check_kept(rank, placement, tensor, updated));
  }
  return {};
}

// What training counts is counted once a step, wherever a step reads it.
Status Flow::check_counters(const Rank& rank) const {
  for (size_t b = 0; b < rank.plan->buffers.size(); ++b) {
    const Buffer& buffer = rank.plan->buffers[b];
    if (buffer.cls != BufferClass::kTraining) continue;
    for (const auto& segment : rank.contents.at(static_cast<int32_t>(b)).segments())
      if (segment.content.kind != Kind::kCounter || segment.content.how != 1)
        return Status::failure("P0638", "rule 10: " + rank_name(*rank.plan) + " keeps " + quoted(buffer.name) +
                                            " for training, but does not count it in a step");
  }
  return {};
}

// The executor counts skipped steps by the number of elements that are not finite.
Status Flow::check_overflow(const Rank& rank) {
  const BufferRange& where = rank.plan->overflow;
  if (where.buffer < 0) return {};
  Pieces pieces;
  rank.contents.at(where.buffer).read(where.offset, where.offset + dtype_bytes(DType::kF32), pieces);
  int32_t sum = 0;
  const std::string wrong = ledger_.measured(Ledger::Measure::kOverflow, pieces, sum);
  return wrong.empty()
             ? Status()
             : Status::failure("P0636", "rule 8: the overflow that " + rank_name(*rank.plan) + " reports " + wrong);
}

// The samples by which a step's runs have brought a running statistic forward on this rank, 0: none did.
int32_t Flow::samples_taken(const Rank& rank, int32_t tensor) {
  for (size_t b = 0; b < rank.plan->buffers.size(); ++b)
    if (rank.plan->buffers[b].cls == BufferClass::kState)
      for (const auto& segment : rank.contents.at(static_cast<int32_t>(b)).segments())
        if (segment.content.kind == Kind::kStatistic && segment.content.what == tensor && segment.content.how != 0)
          return segment.content.how;
  return 0;
}

// What is placed, and so may be saved or evaluated, is behind the step still of its own tensor, and the newest.
Status Flow::check_kept(const Rank& rank, const Placement& placement, int32_t tensor, bool updated) const {
  if (placement.kind == PlacementKind::kGradient || placement.kind == PlacementKind::kConstant) return {};
  const Part& part = placement.part;
  const int64_t element = dtype_bytes(placement.dtype), begin = part.where.offset, end = begin + part.count * element;
  const auto segments = rank.contents.at(part.where.buffer).segments();
  auto at = std::partition_point(segments.begin(), segments.end(), [&](const auto& s) { return s.end <= begin; });
  for (; at != segments.end() && at->begin < end; ++at) {
    const auto& segment = *at;
    const Content& content = segment.content;
    bool right = content.what == tensor && content.origin - segment.begin == part.first * element - begin;
    switch (placement.kind) {
      case PlacementKind::kValue:
      case PlacementKind::kWorking:
        right = right && content.kind == Kind::kParameter && content.how == (updated ? 1 : 0);
        break;
      case PlacementKind::kMaster:
        right = right && content.kind == Kind::kMaster && content.how == (updated ? 1 : 0);
        break;
      case PlacementKind::kFirstMoment:
      case PlacementKind::kSecondMoment:
        right = right && content.kind == Kind::kMoment && content.parts == (updated ? 1 : 0) &&
                content.how == (placement.kind == PlacementKind::kFirstMoment ? 1 : 2);
        break;
      case PlacementKind::kState:
        right = right && content.kind == Kind::kStatistic && content.how == samples_taken(rank, tensor);
        break;
      case PlacementKind::kGradient:
      case PlacementKind::kConstant: break;
    }
    if (!right)
      return Status::failure("P0638", "rule 10: " + rank_name(*rank.plan) +
                                          " leaves something else, or old, where the " + kind_text(placement.kind) +
                                          " of " + quoted(placement.name) + " is placed, in " +
                                          quoted(rank.plan->buffers[static_cast<size_t>(part.where.buffer)].name));
  }
  return {};
}

Status Flow::check_measures() const {
  std::vector<SampleRange> elements;
  for (const auto& range : updated_elements_) {
    if (!elements.empty() && range.first <= elements.back().first + elements.back().count)
      elements.back().count = std::max(elements.back().count, range.first + range.count - elements.back().first);
    else elements.push_back(range);
  }
  for (const auto& [measure, place] : measured_)
    if (const auto wrong = ledger_.check_measured(measure, elements); !wrong.empty())
      return Status::failure(
          "P0636",
          "rule 8: " + describe_instruction(bundle_, *ranks_[place.rank].plan, static_cast<size_t>(place.instruction)) +
              ": its norm " + wrong);
  return {};
}

OrdersOfSums Flow::orders_of_sums() {
  for (const auto& [measure, place] : measured_) orders_.norms.push_back(ledger_.order(measure));
  return std::move(orders_);
}

// Every element of what the manifest says is trained.
Status Flow::check_all_trained() const {
  std::vector<SampleRange> updated;  // without overlaps
  for (const SampleRange& range : updated_elements_) {
    if (!updated.empty() && range.first <= updated.back().first + updated.back().count)
      updated.back().count = std::max(updated.back().count, range.first + range.count - updated.back().first);
    else updated.push_back(range);
  }
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (!bundle_.manifest.tensors[t].trained || num_elements_[t] == 0) continue;
    const int64_t first = first_element_[t], end = first + num_elements_[t];
    auto range = std::upper_bound(updated.begin(), updated.end(), SampleRange{first, 0},
                                  [](const SampleRange& a, const SampleRange& b) { return a.first < b.first; });
    const bool begins = range != updated.begin() && std::prev(range)->first + std::prev(range)->count > first;
    const int64_t missing = begins ? std::prev(range)->first + std::prev(range)->count : first;
    if (missing < end)
      return Status::failure("P0638", "rule 10: nothing updates element " + std::to_string(missing - first) + " of " +
                                          quoted(tensors_[static_cast<int32_t>(t)]) +
                                          ", which the manifest says is trained");
  }
  return {};
}

// Running statistics that a step updates have taken every sample once, each on one of the ranks that keep some.
Status Flow::check_statistics() {
  std::map<int32_t, int32_t> sums;  // by tensor
  for (const Rank& rank : ranks_)
    for (size_t b = 0; b < rank.plan->buffers.size(); ++b)
      for (const auto& segment : rank.contents.at(static_cast<int32_t>(b)).segments())
        if (segment.content.kind == Kind::kStatistic && segment.content.how != 0 && segment.content.origin == 0)
          sums[segment.content.what] = ledger_.add_samples(sums[segment.content.what], segment.content.how);
  for (const auto& [tensor, sum] : sums)
    if (const std::string wrong = ledger_.lacks(sum); !wrong.empty())
      return Status::failure("P0638", "rule 10: the running statistic " + quoted(tensors_[tensor]) + " has " + wrong);
  return {};
}

// Each element of what is saved has one owner: of every tensor that is placed its weights, of those that are updated
// gradients and moments, too.
Status Flow::check_owners() const {
  struct Owned {
    PlacementKind kind;
    int32_t tensor;
    int64_t first, count;
    auto key() const { return std::tie(kind, tensor); }
  };
  std::vector<Owned> owned;
  for (const auto& rank : ranks_)
    for (const auto& placement : rank.plan->placements) {
      if (placement.kind == PlacementKind::kConstant) {
        if (placement.part.owner)
          return Status::failure("P0638",
                                 "rule 10: " + rank_name(*rank.plan) + " saves the constant " + quoted(placement.name));
        continue;
      }
      if (placement.kind == PlacementKind::kWorking) {
        if (placement.part.owner)
          return Status::failure("P0638", "rule 10: " + rank_name(*rank.plan) + " saves the working copy of " +
                                              quoted(placement.name) + ", not its master");
        continue;
      }
      const int32_t tensor = tensors_.find(placement.name);
      if (tensor < 0 && placement.part.owner)
        return Status::failure("P0638", "rule 10: " + rank_name(*rank.plan) + " saves " + quoted(placement.name) +
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
                                   : "the " + std::string(kind_text(all.kind)) + " of ";
      return Status::failure("P0638", "rule 10: " + std::string(what) + " saves element " + std::to_string(element) +
                                          " of " + kind + quoted(tensors_[all.tensor]));
    };
    for (; at < owned.size() && owned[at].key() == all.key(); ++at) {
      if (owned[at].count == 0) continue;
      if (owned[at].first > next) return wrong("no rank", next);
      if (owned[at].first < next) return wrong("more than one rank", owned[at].first);
      next += owned[at].count;
    }
    if (next != num_elements_[static_cast<size_t>(all.tensor)]) return wrong("no rank", next);
  }
  return {};
}

}  // namespace piper::verify
