#include "compiler/emit/taken_bytes.h"

#include <algorithm>
#include <bit>

namespace piper::emit {

TakenBytes::TakenBytes(std::span<const plan::Life> lives) : lives_(lives) {
  std::vector<uint32_t> begins;
  begins.reserve(lives.size());
  for (const plan::Life& life : lives) begins.push_back(life.first);
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  const auto at = [&](uint32_t position) {
    return static_cast<uint32_t>(std::lower_bound(begins.begin(), begins.end(), position) - begins.begin());
  };
  times_.reserve(lives.size());
  for (const plan::Life& life : lives) times_.push_back({at(life.first), at(life.end)});
  num_times_ = std::bit_ceil(static_cast<uint32_t>(std::max<size_t>(begins.size(), 1)));
  nodes_.resize(2 * size_t{num_times_});
}

void TakenBytes::clear() {
  for (Node& node : nodes_) {
    node.throughout.clear();
    node.ever.clear();
  }
}

void TakenBytes::add(Ranges& ranges, Range taken) {
  const auto first =
      std::partition_point(ranges.begin(), ranges.end(), [&](const Range& range) { return range.end < taken.begin; });
  if (first == ranges.end() || first->begin > taken.end) {
    ranges.insert(first, taken);
    return;
  }
  first->begin = std::min(first->begin, taken.begin);
  auto last = first;
  while (std::next(last) != ranges.end() && std::next(last)->begin <= taken.end) ++last;
  first->end = std::max(taken.end, last->end);
  ranges.erase(std::next(first), std::next(last));
}

void TakenBytes::insert(uint32_t node, Times of_node, Times life, Range taken) {
  add(nodes_[node].ever, taken);
  if (life.begin <= of_node.begin && of_node.end <= life.end) return add(nodes_[node].throughout, taken);
  const uint32_t middle = of_node.begin + (of_node.end - of_node.begin) / 2;
  if (life.begin < middle) insert(2 * node, {of_node.begin, middle}, life, taken);
  if (life.end > middle) insert(2 * node + 1, {middle, of_node.end}, life, taken);
}

void TakenBytes::insert(uint32_t life, int64_t offset) {
  insert(1, {0, num_times_}, times_[life], {offset, offset + lives_[life].bytes});
}

void TakenBytes::find(uint32_t node, Times of_node, Times life) {
  if (nodes_[node].ever.empty()) return;
  const bool all = life.begin <= of_node.begin && of_node.end <= life.end;
  const Ranges& ranges = all ? nodes_[node].ever : nodes_[node].throughout;
  if (!ranges.empty()) found_.push_back({ranges.data(), ranges.data() + ranges.size()});
  if (all) return;
  const uint32_t middle = of_node.begin + (of_node.end - of_node.begin) / 2;
  if (life.begin < middle) find(2 * node, {of_node.begin, middle}, life);
  if (life.end > middle) find(2 * node + 1, {middle, of_node.end}, life);
}

int64_t TakenBytes::lowest_free(uint32_t life) {
  found_.clear();
  find(1, {0, num_times_}, times_[life]);
  const int64_t bytes = lives_[life].bytes;
  int64_t offset = 0;
  // Until it has passed all ranges without being moved on.
  for (size_t agreed = 0, i = 0; agreed < found_.size(); i = i + 1 == found_.size() ? 0 : i + 1) {
    const int64_t before = offset;
    Found& ranges = found_[i];
    for (; ranges.next != ranges.end && ranges.next->begin - offset < bytes; ++ranges.next)
      offset = std::max(offset, ranges.next->end);
    agreed = offset == before ? agreed + 1 : 1;
  }
  return offset;
}

}  // namespace piper::emit
