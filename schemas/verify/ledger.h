// Sums of contents: which addends a sum has, which samples each of them holds, whether that is all of
// them. Used by the rules about contents (contents_flow.h).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "schemas/verify/contents.h"
#include "schemas/verify/program_effects.h"
#include "schemas/verify/samples.h"

namespace piper::verify {

class Ledger {
 public:
  // `batch`: samples of a step. `elements[t]`, [tensors]: the first element of tensor t when all are counted through.
  // `element_bytes`, [tensors]: of an element of what is trained.
  // `places`: [cut] of the manifest.
  Ledger(int64_t batch, std::vector<int64_t> places, const Names& tensors, std::vector<int64_t> elements,
         std::vector<int64_t> element_bytes);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  Content sum(int32_t addend, int32_t samples, int64_t origin);
  // The sum that is there + the addend's samples.
  void add(Content& sum, int32_t addend, int32_t samples);
  // a + b where they mean something together; what is wrong, or "". Values become sums of their samples.
  std::string add(const Content& a, const Content& b, Content& result);
  std::string add(const Pieces& a, const Pieces& b, Pieces& result);

  // A digest of the order in which the addends of a sum were added (SumTable::order, over several addends as well).
  uint64_t order(const Sum& sum);
  uint64_t order(int32_t sum) { return sums_.order(sum); }

  // Sorted by addend.
  using Terms = std::vector<std::pair<int32_t, int32_t>>;  // addend, sum
  Terms terms(const Sum& sum) const;
  // Whether each addend of a sum holds each sample of the step exactly once: "" or what is wrong with the first
  // that does not. Its addends count as used.
  std::string use(const Sum& sum);

  // The sum as it would be made of other lists of samples: `leaf` says of which, `known` has what was asked for before.
  struct Moved {
    std::unordered_map<int32_t, int32_t> sums;
    std::unordered_map<int32_t, Sum> several;  // by Sum::order
  };
  Sum moved(const Sum& sum, const std::function<int32_t(int32_t)>& leaf, Moved& known);

  // Sums of samples that belong to no addend, 0: none. What such a sum lacks to hold each sample once, or "".
  int32_t add_samples(int32_t sum, int32_t sample_ids) { return sums_.add(sum, sums_.leaf(sample_ids)); }
  // For shares, each sample once for each of `places`.
  std::string lacks(int32_t sum, int64_t places = 1);
  // The samples as those of a place's shares: sample n of place p counts as p * batch + n.
  int32_t share_of_samples(int32_t sample_ids, int64_t place);

  // What is measured of all gradients together.
  enum class Measure : uint8_t { kNorm, kOverflow };
  // The part that a complete gradient adds: its elements. "" or what is wrong.
  std::string add_measured(Measure what, const Pieces& gradients, Pieces& result);
  // The elements that a measure holds; "" or why it is none.
  std::string measured(Measure what, const Pieces& pieces, int32_t& sum);
  // What is wrong with a measure of `elements` (sorted, disjoint), or "".
  std::string check_measured(int32_t sum, const std::vector<SampleRange>& elements) const;

  const std::vector<char>& used() const { return used_; }

  // The label of a value after an exchange, where it is another value.
  int32_t exchanged(int32_t label);
  bool is_exchanged(int32_t label) const {
    return static_cast<size_t>(label) < exchanged_.size() && exchanged_[static_cast<size_t>(label)];
  }

  SampleTable samples;
  Addends addends;
  Labels labels;

 private:
  // As a part of a sum of several addends, where they have to be told apart.
  uint64_t order_among_others(const Sum& sum);
  Content as_sum(const Content& content);

  SumTable sums_;
  int64_t batch_;
  std::vector<int64_t> places_;
  const Names& tensors_;
  std::vector<int64_t> elements_, element_bytes_;
  int32_t measures_[2] = {};  // [Measure] its addend
  std::vector<Terms> lists_;
  std::map<Terms, int32_t> list_ids_;
  // How sums of several addends were made, by digest: Sum::order is a place in the list.
  std::vector<uint64_t> list_orders_;
  std::map<uint64_t, int32_t> list_order_ids_;
  std::vector<std::pair<Sum, Sum>> list_made_of_;  // by place in the list
  std::vector<char> used_;                         // [addend]
  std::vector<char> exchanged_;                    // [label]
  std::vector<int32_t> exchanged_as_;  // [label] -> the label of what an exchange makes of it, -1: not asked for yet
};

}  // namespace piper::verify
