#include "schemas/verify/ledger.h"

#include <algorithm>

#include "schemas/base/check.h"

#include "schemas/verify/order_digest.h"

namespace piper::verify {
Ledger::Ledger(int64_t batch, std::vector<int64_t> places, const Names& tensors, std::vector<int64_t> elements,
               std::vector<int64_t> element_bytes)
    : sums_(samples),
      batch_(batch),
      places_(std::move(places)),
      tensors_(tensors),
      elements_(std::move(elements)),
      element_bytes_(std::move(element_bytes)) {
  measures_[static_cast<size_t>(Measure::kNorm)] = addends.id({"", "square of the gradients' norm"});
  measures_[static_cast<size_t>(Measure::kOverflow)] = addends.id({"", "overflow of the gradients"});
}

Content Ledger::sum(int32_t addend, int32_t sample_ids, int64_t origin) {
  return {.what = Sum{.addend = addend, .sum = sums_.leaf(sample_ids)}, .origin = origin};
}

Ledger::Terms Ledger::terms(const Sum& sum) const {
  if (sum.addend >= 0) return {{sum.addend, sum.sum}};
  return lists_[static_cast<size_t>(sum.list)];
}

uint64_t Ledger::order(const Sum& sum) {
  return sum.addend >= 0 ? sums_.order(sum.sum) : list_orders_[static_cast<size_t>(sum.order)];
}

uint64_t Ledger::order_among_others(const Sum& sum) {
  if (sum.addend < 0) return order(sum);
  OrderDigest digest;
  digest.add(addends[sum.addend].chunk).add(addends[sum.addend].slot).add(sums_.order(sum.sum));
  return digest.value();
}

void Ledger::add(Content& content, int32_t addend, int32_t sample_ids) {
  if (Sum& held = std::get<Sum>(content.what); held.addend == addend) {
    held.sum = sums_.add(held.sum, sums_.leaf(sample_ids));
    return;
  }
  Content result;
  Content more = sum(addend, sample_ids, content.origin);
  more.layout = content.layout;
  (void)add(content, more, result);
  content = result;
}

Content Ledger::as_sum(const Content& content) {
  const auto* const value = content.as<Value>();
  if (value == nullptr) return content;
  Addend of;
  if (value->label >= 0) of.slot = labels[value->label], of.number = labels.number(value->label);
  const int32_t addend = addends.id(of);
  Content result = sum(addend, value->samples, content.origin);
  result.layout = content.layout;
  return result;
}

std::string Ledger::add(const Content& left, const Content& right, Content& result) {
  for (const Content* const content : {&left, &right})
    if (const auto* const value = content->as<Value>(); value != nullptr && (value->spread != 0 || value->by_place))
      return "adds what one place has of a value to a sum over samples";
  if (left.is_empty() || right.is_empty()) {
    const Content& other = left.is_empty() ? right : left;
    if (other.is_empty()) {
      result = left.is<Zero>() ? right : left;
      return "";
    }
    if (left.is<Nothing>() || right.is<Nothing>()) return "adds bytes that nothing wrote";
    result = as_sum(other);
    return result.is<Sum>() ? "" : "adds what is no sum";
  }
  const Content a = as_sum(left), b = as_sum(right);
  const Sum *const of_a = a.as<Sum>(), *const of_b = b.as<Sum>();
  if (of_a == nullptr || of_b == nullptr) return "adds what is no sum";
  if (a.origin != b.origin) return "adds sums over different elements";
  if (a.layout != b.layout && a.layout != kNoLayout && b.layout != kNoLayout) return "adds elements of different types";
  result = a;
  if (of_a->addend == of_b->addend && of_a->addend >= 0) {
    std::get<Sum>(result.what).sum = sums_.add(of_a->sum, of_b->sum);
    return "";
  }
  OrderDigest made;
  made.add_unordered(order_among_others(*of_a), order_among_others(*of_b));
  const auto [order, new_order] = list_order_ids_.emplace(made.value(), static_cast<int32_t>(list_orders_.size()));
  if (new_order) {
    list_orders_.push_back(made.value());
    list_made_of_.emplace_back(*of_a, *of_b);
  }
  Terms all = terms(*of_a);
  for (const auto& [addend, sum] : terms(*of_b)) {
    const auto at =
        std::lower_bound(all.begin(), all.end(), addend, [](const auto& term, int32_t id) { return term.first < id; });
    if (at != all.end() && at->first == addend) at->second = sums_.add(at->second, sum);
    else all.insert(at, {addend, sum});
  }
  const auto [it, fresh] = list_ids_.emplace(all, static_cast<int32_t>(lists_.size()));
  if (fresh) lists_.push_back(std::move(all));
  result.what = Sum{.list = it->second, .order = order->second};
  return "";
}

Sum Ledger::moved(const Sum& sum, const std::function<int32_t(int32_t)>& leaf, Moved& known) {
  const auto of_one = [&](Sum one) {
    one.sum = sums_.moved(one.sum, leaf, known.sums);
    return one;
  };
  if (sum.addend >= 0) return of_one(sum);
  std::vector<int32_t> open = {sum.order};
  while (!open.empty()) {
    const int32_t order = open.back();
    const auto [a, b] = list_made_of_[static_cast<size_t>(order)];
    const size_t before = open.size();
    for (const Sum& part : {a, b})
      if (part.addend < 0 && !known.several.contains(part.order)) open.push_back(part.order);
    if (open.size() > before) continue;
    open.pop_back();
    const auto moved_part = [&](const Sum& part) {
      return Content{.what = part.addend < 0 ? known.several.at(part.order) : of_one(part)};
    };
    Content result;
    const std::string wrong = add(moved_part(a), moved_part(b), result);  // as a and b were added
    PIPER_CHECK(wrong.empty(), wrong);
    known.several.emplace(order, std::get<Sum>(result.what));
  }
  return known.several.at(sum.order);
}

std::string Ledger::add(const Pieces& a, const Pieces& b, Pieces& result) {
  result.clear();
  size_t i = 0, j = 0;
  int64_t in_a = 0, in_b = 0;
  while (i < a.size() && j < b.size()) {
    Content left = a[i].content, right = b[j].content;
    left.origin += in_a;
    right.origin += in_b;
    Piece piece;
    piece.bytes = std::min(a[i].bytes - in_a, b[j].bytes - in_b);
    if (auto wrong = add(left, right, piece.content); !wrong.empty()) return wrong;
    append(result, piece);
    in_a += piece.bytes;
    in_b += piece.bytes;
    if (in_a == a[i].bytes) ++i, in_a = 0;
    if (in_b == b[j].bytes) ++j, in_b = 0;
  }
  return "";
}

int32_t Ledger::share_of_samples(int32_t sample_ids, int64_t place) {
  int32_t shares = 0;
  const std::vector<SampleRange> ranges = samples.ranges(sample_ids);  // the table grows
  for (const SampleRange& range : ranges)
    shares = samples.append(shares, samples.range(range.first + place * batch_, range.count));
  return shares;
}

std::string Ledger::lacks(int32_t sum, int64_t places) {
  if (sums_.complete(sum, batch_ * places)) return "";
  const auto holds = sums_.compare(sum, {{0, batch_ * places}});
  if (places > 1) {
    // Samples are counted place by place (share_of_samples).
    const auto& wrong = !holds.repeated.empty()  ? holds.repeated
                        : !holds.missing.empty() ? holds.missing
                                                 : holds.foreign;
    const int64_t place = wrong[0].first / batch_;
    return "the share of place " + std::to_string(place) + " of " +
           text({{wrong[0].first % batch_, std::min(wrong[0].count, batch_ - wrong[0].first % batch_)}}) +
           (!holds.repeated.empty()  ? " more than once"
            : !holds.missing.empty() ? " missing"
                                     : ", outside of the step,");
  }
  if (!holds.repeated.empty()) return text(holds.repeated) + " more than once";
  if (!holds.missing.empty()) return text(holds.missing) + " missing";
  return text(holds.foreign) + ", outside of the step,";
}

std::string Ledger::use(const Sum& used) {
  for (const auto& [addend, sum] : terms(used)) {
    if (used_.size() < addends.size()) used_.resize(addends.size());
    used_[static_cast<size_t>(addend)] = 1;
    const int32_t share = addends[static_cast<int32_t>(addend)].share;
    const std::string wrong = lacks(sum, share < 0 ? 1 : places_[static_cast<size_t>(share)]);
    const auto& what = addends[addend];
    // A value without samples that is added cannot be counted.
    if (wrong.empty() || (what.chunk.empty() && sums_.compare(sum, {}).exact())) continue;
    return wrong + " in what " + (what.chunk.empty() ? "is" : what.chunk) +
           (what.chunk.empty() ? " in \"" : " adds to \"") + what.slot + "\"";
  }
  return "";
}

int32_t Ledger::exchanged(int32_t label) {
  if (label < 0) return label;
  if (exchanged_as_.size() <= static_cast<size_t>(label)) exchanged_as_.resize(static_cast<size_t>(label) + 1, -1);
  if (const int32_t known = exchanged_as_[static_cast<size_t>(label)]; known >= 0) return known;
  const int32_t id = labels.id("exchanged " + labels[label]);
  if (exchanged_.size() <= static_cast<size_t>(id)) exchanged_.resize(static_cast<size_t>(id) + 1);
  exchanged_[static_cast<size_t>(id)] = 1;
  return exchanged_as_[static_cast<size_t>(label)] = id;
}

std::string Ledger::add_measured(Measure what, const Pieces& gradients, Pieces& result) {
  const std::string verb = what == Measure::kNorm ? "takes the norm of " : "looks for an overflow of ";
  int32_t elements = 0;
  for (const auto& piece : gradients) {
    if (piece.content.is_empty()) continue;
    const auto* const gradient = piece.content.as<Sum>();
    if (gradient == nullptr) return verb + "what is no gradient";
    if (auto wrong = use(*gradient); !wrong.empty()) return verb + "a gradient with " + wrong;
    const int32_t tensor = addends[terms(*gradient)[0].first].tensor;
    if (tensor < 0) return verb + "what is no parameter's gradient";
    const auto t = static_cast<size_t>(tensor);
    elements = samples.append(elements, samples.range(elements_[t] + piece.content.origin / element_bytes_[t],
                                                      piece.bytes / element_bytes_[t]));
  }
  const int32_t addend = measures_[static_cast<size_t>(what)];
  Pieces more = {{4, elements == 0 ? Content{Zero()} : sum(addend, elements, 0)}};
  if (elements != 0) more[0].content.layout = layout_of(DType::kF32);
  const Pieces before = result;
  return add(before, more, result);
}

std::string Ledger::measured(Measure what, const Pieces& pieces, int32_t& sum) {
  sum = 0;
  for (const auto& piece : pieces) {
    if (piece.content.is<Zero>()) continue;
    const auto* const measure = piece.content.as<Sum>();
    if (measure == nullptr || measure->addend != measures_[static_cast<size_t>(what)])
      return what == Measure::kNorm ? "clips by what is no norm of gradients"
                                    : "skips by what is no overflow of gradients";
    sum = sums_.add(sum, measure->sum);
  }
  return "";
}

std::string Ledger::check_measured(int32_t sum, const std::vector<SampleRange>& elements) const {
  const auto holds = sums_.compare(sum, elements);
  if (holds.exact()) return "";
  const auto& wrong = !holds.missing.empty() ? holds.missing : !holds.repeated.empty() ? holds.repeated : holds.foreign;
  const auto tensor = std::upper_bound(elements_.begin(), elements_.end(), wrong[0].first) - elements_.begin() - 1;
  const char* const how = !holds.missing.empty()    ? "lacks"
                          : !holds.repeated.empty() ? "counts more than once"
                                                    : "counts, though nothing updates it,";
  return how + (" element " + std::to_string(wrong[0].first - elements_[static_cast<size_t>(tensor)])) + " of \"" +
         tensors_[static_cast<int32_t>(tensor)] + "\"";
}

}  // namespace piper::verify
