// What must hold when a step ends: of sums and of what is reported here, of what is kept in flow_kept.cc.
#include <algorithm>
#include <utility>

#include "schemas/plan/names.h"
#include "schemas/verify/describe.h"
#include "schemas/verify/flow_kept.h"
#include "schemas/verify/held_name.h"

namespace piper::verify {

using namespace plan;

namespace {

bool is_number(const Addend& addend, StepNumber number, int32_t term) {
  return addend.number == number && addend.slot == held_name(number, term);
}

}  // namespace

Status Flow::check_end() {
  const Kept kept(*this);
  std::sort(updated_elements_.begin(), updated_elements_.end());
  PIPER_RETURN_IF_ERROR(bundle_.manifest.evaluates ? check_means() : check_loss());
  PIPER_RETURN_IF_ERROR(check_dropped());
  PIPER_RETURN_IF_ERROR(kept.check_loss_scales());
  PIPER_RETURN_IF_ERROR(check_addends());
  PIPER_RETURN_IF_ERROR(check_all_added());
  const std::vector<SampleRange> updated = elements_updated();
  for (const auto& rank : ranks_) {
    PIPER_RETURN_IF_ERROR(kept.check_next_step(rank));
    if (!bundle_.manifest.evaluates) PIPER_RETURN_IF_ERROR(kept.check_counters(rank));
    PIPER_RETURN_IF_ERROR(check_overflow(rank, updated));
    PIPER_RETURN_IF_ERROR(check_squares(rank));
  }
  PIPER_RETURN_IF_ERROR(check_measures(updated));
  PIPER_RETURN_IF_ERROR(check_measured_gradients());
  PIPER_RETURN_IF_ERROR(kept.check_statistics());
  if (!bundle_.manifest.evaluates) PIPER_RETURN_IF_ERROR(kept.check_all_trained());
  return bundle_.manifest.evaluates ? Status() : kept.check_owners();  // what it reads, its training saves
}

// The reported loss is a sum over all samples, the reported norm one of the gradients.
Status Flow::check_loss() {
  const auto reporting = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
    return rank.plan->rank == bundle_.manifest.reporting_rank;
  });
  const bool has_loss = reporting != ranks_.end() && reporting->plan->loss.buffer >= 0;
  if (!has_loss) return first_adder_.empty() ? Status() : violates(Rule::kSums, "the reporting rank has no loss");
  Pieces pieces, sum;
  reporting->contents.take(reporting->plan->loss, 4, pieces);
  // A value that is said to be the loss may be one where nothing says what the model's is.
  const bool added = pieces.size() == 1 && (pieces[0].content.is<Sum>() || bundle_.reference.empty());
  std::string wrong = added ? ledger_.add({{4, {Zero()}}}, pieces, sum) : "is never computed";
  const Sum* const loss = wrong.empty() ? sum[0].content.as<Sum>() : nullptr;
  if (wrong.empty() && loss == nullptr) wrong = "is never computed";
  else if (wrong.empty())
    if (wrong = use_sum("loss", *loss); !wrong.empty()) wrong = "has " + wrong;
  if (wrong.empty())
    for (const auto& [addend, samples] : ledger_.terms(*loss))
      if (!is_number(ledger_.addends[addend], StepNumber::kLoss, 0))
        wrong = "holds " + in_quotes(ledger_.addends[addend].slot);
  if (!wrong.empty())
    return violates(Rule::kSums, "the loss that " + describe_rank(*reporting->plan) + " reports " + wrong);
  orders_.loss = ledger_.order(*loss);
  if (reporting->plan->grad_norm.buffer < 0) return {};
  pieces.clear();
  reporting->contents.take(reporting->plan->grad_norm, 4, pieces);
  const auto* const reported = pieces[0].content.as<Clip>();
  const bool norm = reported != nullptr && *reported == Clip{Clip::Is::kNorm, scales()};
  return norm ? Status()
              : violates(Rule::kSums, describe_rank(*reporting->plan) + " reports what is no norm of the gradients");
}

// For an evaluation: what is added to a term's sum, or to its count, is reported.
Status Flow::check_all_reported(const std::vector<Mean>& means) const {
  for (size_t a = 0; a < first_adder_.size(); ++a) {
    const Addend& addend = ledger_.addends[static_cast<int32_t>(a)];
    const bool counts = addend.number == StepNumber::kCount;
    if (first_adder_[a].instruction < 0 || (!counts && addend.number != StepNumber::kLoss)) continue;
    bool reported = false;
    for (size_t m = 0; m < means.size(); ++m)
      reported = reported || (is_number(addend, addend.number, static_cast<int32_t>(m)) &&
                              (counts ? means[m].count : means[m].sum).buffer >= 0);
    if (!reported) return violates(Rule::kSums, "nobody reports " + in_quotes(addend.slot) + ", which is added up");
  }
  return {};
}

// For an evaluation: each reported sum and each count is one over all samples, of the term that it is reported as.
Status Flow::check_means() {
  const auto reporting = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
    return rank.plan->rank == bundle_.manifest.reporting_rank;
  });
  if (reporting == ranks_.end() || reporting->plan->means.empty())
    return violates(Rule::kSums, "the reporting rank has no mean");
  const std::vector<Mean>& means = reporting->plan->means;
  PIPER_RETURN_IF_ERROR(check_all_reported(means));
  for (size_t m = 0; m < means.size(); ++m)
    for (const auto& [where, number] :
         {std::pair(means[m].sum, StepNumber::kLoss), std::pair(means[m].count, StepNumber::kCount)}) {
      if (where.buffer < 0) continue;
      const auto term = static_cast<int32_t>(m);
      const std::string slot = held_name(number, term);
      Pieces pieces;
      reporting->contents.take(where, dtype_bytes(DType::kF32), pieces);
      const Sum* const sum = pieces.size() == 1 ? pieces[0].content.as<Sum>() : nullptr;
      std::string wrong = sum != nullptr ? "" : "is never computed";
      if (sum != nullptr) {
        for (const auto& [addend, samples] : ledger_.terms(*sum))
          if (const Addend& of = ledger_.addends[addend]; !is_number(of, number, term))
            wrong = "holds " + in_quotes(of.slot) + " as " + in_quotes(slot);
        const std::string lacks = use_sum(slot, *sum);
        if (wrong.empty() && !lacks.empty()) wrong = "has " + lacks;
      }
      if (wrong.empty()) continue;
      const std::string& name = reporting->plan->buffers[static_cast<size_t>(where.buffer)].name;
      return violates(Rule::kSums,
                      in_quotes(name) + ", which " + describe_rank(*reporting->plan) + " reports, " + wrong);
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
    return violates(Rule::kSums,
                    "the number of dropped rows that " + describe_rank(*reporting->plan) + " reports " + what);
  };
  Pieces pieces;
  reporting->contents.take(reporting->plan->dropped, dtype_bytes(DType::kI64), pieces);
  const Sum* const dropped = pieces.size() == 1 ? pieces[0].content.as<Sum>() : nullptr;
  if (dropped == nullptr) return wrong("is never computed");
  for (const auto& [addend, sum] : ledger_.terms(*dropped))
    if (!is_number(ledger_.addends[addend], StepNumber::kDropped, 0))
      return wrong("holds " + in_quotes(ledger_.addends[addend].slot));
  const std::string missing = use_sum("dropped", *dropped);
  return missing.empty() ? Status() : wrong("has " + missing);
}

// The executor counts skipped steps by the number of elements that are not finite, of all gradients.
Status Flow::check_overflow(const Rank& rank, const std::vector<SampleRange>& updated) {
  const BufferRange& where = rank.plan->overflow;
  if (where.buffer < 0)
    return rank.plan->loss_scale.buffer < 0
               ? Status()
               : violates(Rule::kSums, describe_rank(*rank.plan) +
                                           " reports the loss scale without the overflow by which it skips steps");
  Pieces pieces;
  rank.contents.at(where.buffer).read(where.offset, where.offset + dtype_bytes(DType::kF32), pieces);
  int32_t sum = 0;
  std::string wrong = ledger_.measured(Ledger::Measure::kOverflow, pieces, sum);
  if (wrong.empty()) wrong = ledger_.check_measured(sum, updated);
  return wrong.empty() ? Status()
                       : violates(Rule::kSums, "the overflow that " + describe_rank(*rank.plan) + " reports " + wrong);
}

// Whatever is added somewhere reaches an update, a count or the loss.
Status Flow::check_addends() const {
  for (size_t a = 0; a < first_adder_.size(); ++a) {
    if (first_adder_[a].instruction < 0 || (a < ledger_.used().size() && ledger_.used()[a])) continue;
    const auto& addend = ledger_.addends[static_cast<int32_t>(a)];
    return violates(Rule::kSums, "nothing uses what " +
                                     describe_instruction(bundle_, *ranks_[first_adder_[a].rank].plan,
                                                          static_cast<size_t>(first_adder_[a].instruction)) +
                                     " adds to " + in_quotes(addend.slot));
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
    return violates(Rule::kSums, in_quotes(addend.slot) + " is used without what " +
                                     describe_instruction(bundle_, *ranks_[first_adder_[a].rank].plan,
                                                          static_cast<size_t>(first_adder_[a].instruction)) +
                                     " adds to it");
  }
  return {};
}

// Norms of groups are made of squares at tensors of theirs: together those of all their gradients.
Status Flow::check_squares(const Rank& rank) {
  const BufferRange& where = rank.plan->grad_squares;
  if (where.buffer < 0) return {};
  const std::vector<TensorInfo>& tensors = bundle_.manifest.tensors;
  struct Group {
    Pieces squares;
    std::vector<SampleRange> elements;
  };
  std::map<int32_t, Group> groups;
  for (size_t t = 0; t < num_grad_squares(bundle_.manifest); ++t) {
    if (!tensors[t].trained || num_elements_[t] == 0) continue;
    Group& group = groups[tensors[t].group];
    const int64_t bytes = dtype_bytes(DType::kF32), at = where.offset + static_cast<int64_t>(t) * bytes;
    rank.contents.at(where.buffer).read(at, at + bytes, group.squares);
    if (!group.elements.empty() && group.elements.back().first + group.elements.back().count == first_element_[t])
      group.elements.back().count += num_elements_[t];
    else group.elements.push_back({first_element_[t], num_elements_[t]});
  }
  for (const auto& [number, group] : groups) {
    int32_t sum = 0;
    std::string wrong = ledger_.measured(Ledger::Measure::kNorm, group.squares, sum);
    if (wrong.empty()) wrong = ledger_.check_measured(sum, group.elements);
    if (!wrong.empty())
      return violates(Rule::kSums, "the squares of the gradients of group " + std::to_string(number) + " that " +
                                       describe_rank(*rank.plan) + " reports: the norm " + wrong);
  }
  return {};
}

// In order, each once.
std::vector<SampleRange> Flow::elements_updated() const {
  std::vector<SampleRange> elements;
  for (const auto& range : updated_elements_) {
    if (!elements.empty() && range.first <= elements.back().first + elements.back().count)
      elements.back().count = std::max(elements.back().count, range.first + range.count - elements.back().first);
    else elements.push_back(range);
  }
  return elements;
}

Status Flow::check_measures(const std::vector<SampleRange>& updated) const {
  for (const auto& [measure, place] : measured_)
    if (const auto wrong = ledger_.check_measured(measure, updated); !wrong.empty())
      return violates(Rule::kSums,
                      describe_instruction(bundle_, *ranks_[place.rank].plan, static_cast<size_t>(place.instruction)) +
                          ": its norm " + wrong);
  return {};
}

// A gradient of several addends, as of a weight that is tied, is measured when it has them all: those that its update
// has.
Status Flow::check_measured_gradients() const {
  for (const auto& [tensor, measured] : measured_gradients_) {
    const auto updated = updated_.find(tensor);
    if (updated == updated_.end() || updated->second.addends == measured.addends) continue;
    const auto told = [&](const Place& place) {
      return describe_instruction(bundle_, *ranks_[place.rank].plan, static_cast<size_t>(place.instruction));
    };
    return violates(Rule::kSums, told(measured.by) + ": measures a gradient of " + in_quotes(tensors_[tensor]) +
                                     " with other addends than " + told(updated->second.by) + " updates by");
  }
  return {};
}

OrdersOfSums Flow::orders_of_sums() {
  for (const auto& [measure, place] : measured_) orders_.norms.push_back(ledger_.order(measure));
  return std::move(orders_);
}

}  // namespace piper::verify
