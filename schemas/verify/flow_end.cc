// What a step begins with and what it must leave for the next.
#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

#include "schemas/plan/names.h"
#include "schemas/verify/describe.h"
#include "schemas/verify/flow.h"

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

Status Flow::begin() {
  for (auto& rank : ranks_) {
    PIPER_RETURN_IF_ERROR(begin_inputs(rank));
    begin_scalars(rank);
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
void Flow::begin_scalars(Rank& rank) {
  const auto& plan = *rank.plan;
  const auto call = [&](int32_t buffer, const char* name, DType dtype) {
    if (buffer < 0) return;
    Content value;
    value.kind = Kind::kValue;
    value.what = ledger_.labels.id(name);
    value.size = plan.buffers[static_cast<size_t>(buffer)].bytes;
    value.layout = layout_of(dtype);
    rank.contents.begin({buffer, 0}, value.size, value);
  };
  for (const auto& scalar : plan.scalars) {
    call(scalar.buffer, "sample_offset", DType::kI64);
    rank.scalars.emplace(scalar.buffer, &scalar.values);
  }
  call(plan.seed_step.buffer, "seed_step", DType::kI64);
  call(plan.learning_rate.buffer, "learning_rate", DType::kF64);
  if (plan.loss_scale.buffer < 0) return;
  Content scale;
  scale.kind = Kind::kCounter;
  scale.what = 1;
  scale.layout = layout_of(DType::kF32);
  rank.contents.begin(plan.loss_scale, dtype_bytes(DType::kF32), scale);
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
  for (const auto& rank : ranks_) PIPER_RETURN_IF_ERROR(check_next_step(rank));
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
  std::string wrong = ledger_.add({{4, Content{Kind::kZero}}}, pieces, sum);
  if (wrong.empty() && sum[0].content.kind != Kind::kSum) wrong = "is never computed";
  else if (wrong.empty())
    if (wrong = ledger_.use(sum[0].content); !wrong.empty()) wrong = "has " + wrong;
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
  for (const Mean& mean : reporting->plan->means)
    for (const BufferRange& where : {mean.sum, mean.count}) {
      if (where.buffer < 0) continue;
      Pieces pieces;
      reporting->contents.take(where, dtype_bytes(DType::kF32), pieces);
      const bool is_sum = pieces.size() == 1 && pieces[0].content.kind == Kind::kSum;
      const std::string wrong = is_sum ? ledger_.use(pieces[0].content) : "";
      if (is_sum && wrong.empty()) continue;
      const std::string& name = reporting->plan->buffers[static_cast<size_t>(where.buffer)].name;
      return Status::failure("P0636", "rule 8: " + quoted(name) + ", which " + rank_name(*reporting->plan) +
                                          " reports, " + (is_sum ? "has " + wrong : "is never computed"));
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
  const std::string missing = ledger_.use(pieces[0].content);
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
  // A tensor with an accumulator is trained, and what a rank saves is the new version.
  std::vector<char> has_gradient(tensors_.size());
  for (const auto& placement : plan.placements) {
    const int32_t tensor = tensors_.find(placement.name);
    if (tensor < 0 || placement.kind != PlacementKind::kGradient) continue;
    has_gradient[static_cast<size_t>(tensor)] = 1;
    if (updated_.count(tensor) == 0)
      return Status::failure("P0638", "rule 10: " + rank_name(plan) + " has a gradient of " + quoted(placement.name) +
                                          ", but nothing updates it");
  }
  for (const auto& placement : plan.placements) {
    const int32_t tensor = tensors_.find(placement.name);
    const bool master = placement.kind == PlacementKind::kMaster, working = placement.kind == PlacementKind::kWorking;
    const bool read_or_trained = placement.kind == PlacementKind::kValue || master || working;
    if (tensor < 0 || !read_or_trained || updated_.count(tensor) == 0) continue;
    const Part& part = placement.part;
    if (!part.owner && !has_gradient[static_cast<size_t>(tensor)]) continue;
    Content parameter;
    parameter.kind = master ? Kind::kMaster : Kind::kParameter;
    parameter.what = tensor;
    parameter.size = dtype_bytes(placement.dtype);
    parameter.origin = part.first * dtype_bytes(placement.dtype);
    PIPER_RETURN_IF_ERROR(check(part.where.buffer, part.where.offset,
                                part.where.offset + part.count * dtype_bytes(placement.dtype), parameter));
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
