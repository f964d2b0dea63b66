#include "schemas/verify/samples.h"

#include <algorithm>
#include <queue>

#include "schemas/verify/order_digest.h"

namespace piper::verify {

std::string text(const std::vector<SampleRange>& ranges, const std::string& noun) {
  constexpr size_t kShown = 4;
  if (ranges.empty()) return "no " + noun;
  std::string result = noun + (ranges.size() > 1 || ranges[0].count > 1 ? "s " : " ");
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (i == kShown) return result + " and more";
    if (i > 0) result += i + 1 == ranges.size() ? " and " : ", ";
    result += std::to_string(ranges[i].first);
    if (ranges[i].count > 1) result += " to " + std::to_string(ranges[i].first + ranges[i].count - 1);
  }
  return result;
}

SampleTable::SampleTable() { (void)intern({}); }

int32_t SampleTable::intern(std::vector<SampleRange> ranges) {
  const auto [it, fresh] = ids_.emplace(ranges, static_cast<int32_t>(lists_.size()));
  if (fresh) lists_.push_back(std::move(ranges));
  return it->second;
}

int32_t SampleTable::range(int64_t first, int64_t count) {
  if (count <= 0) return 0;
  const auto [known, fresh] = of_one_.try_emplace(SampleRange{first, count}, 0);
  if (fresh) known->second = intern({{first, count}});
  return known->second;
}

int32_t SampleTable::append(int32_t a, int32_t b) {
  if (a == 0 || b == 0) return a + b;
  const uint64_t key = (static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32) | static_cast<uint32_t>(b);
  const auto known = appended_.find(key);
  if (known != appended_.end()) return known->second;
  std::vector<SampleRange> all = ranges(a);
  for (const auto& next : ranges(b)) {
    if (all.back().first + all.back().count == next.first) all.back().count += next.count;
    else all.push_back(next);
  }
  const int32_t id = intern(std::move(all));
  appended_.emplace(key, id);
  return id;
}

int32_t SampleTable::slice(int32_t samples, int64_t offset, int64_t length, int64_t size) {
  if (samples == 0 || (offset == 0 && length == size)) return samples;
  int64_t total = 0;
  for (const auto& range : ranges(samples)) total += range.count;
  if (size <= 0 || size % total != 0) return -1;
  const int64_t each = size / total;
  if (offset % each != 0 || length % each != 0) return -1;
  int64_t skip = offset / each, left = length / each;
  if (ranges(samples).size() == 1) return range(ranges(samples)[0].first + skip, std::min(left, total - skip));
  std::vector<SampleRange> cut;
  for (const auto& range : ranges(samples)) {
    const int64_t skipped = std::min(skip, range.count), taken = std::min(left, range.count - skipped);
    skip -= skipped;
    left -= taken;
    if (taken > 0) cut.push_back({range.first + skipped, taken});
  }
  return intern(std::move(cut));
}

int32_t SampleTable::moved(int32_t samples, int64_t by) {
  std::vector<SampleRange> all = ranges(samples);
  if (all.size() == 1) return range(all[0].first + by, all[0].count);
  for (SampleRange& range : all) range.first += by;
  return intern(std::move(all));
}

int32_t SumTable::moved(int32_t sum, const std::function<int32_t(int32_t)>& leaf,
                        std::unordered_map<int32_t, int32_t>& known) {
  known.emplace(0, 0);
  std::vector<int32_t> open = {sum};
  while (!open.empty()) {
    const int32_t id = open.back();
    const Node node = nodes_[static_cast<size_t>(id)];
    size_t missing = 0;
    if (node.b >= 0 && !known.contains(id))
      for (const int32_t part : {node.a, node.b})
        if (!known.contains(part)) {
          open.push_back(part);
          ++missing;
        }
    if (missing > 0) continue;
    open.pop_back();
    if (known.contains(id)) continue;
    known.emplace(id, node.b < 0 ? this->leaf(leaf(node.a)) : add(known.at(node.a), known.at(node.b)));
  }
  return known.at(sum);
}

int32_t SumTable::make(int32_t a, int32_t b, Last& last) {
  const uint64_t key = (static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32) | static_cast<uint32_t>(b);
  if (key == last.key) return last.node;
  const auto [it, fresh] = ids_.emplace(key, static_cast<int32_t>(nodes_.size()));
  if (fresh) nodes_.push_back({a, b});
  last = {key, it->second};
  return last.node;
}

int32_t SumTable::leaf(int32_t samples) { return make(samples, -1, last_leaf_); }

int32_t SumTable::add(int32_t a, int32_t b) {
  if (a == 0 || b == 0) return a + b;
  return make(a, b, last_sum_);
}

SumTable::Holdings SumTable::compare(int32_t sum, const std::vector<SampleRange>& domain) const {
  // How often each node counts, from the sum down: an addend is older than what it was added to.
  constexpr int64_t kMany = 2;
  std::unordered_map<int32_t, int64_t> times = {{sum, 1}};
  std::priority_queue<int32_t> open;
  open.push(sum);
  std::map<int64_t, int64_t> steps;  // position -> change of how often a sample counts
  const auto count = [&](int32_t node, int64_t more) {
    int64_t& known = times[node];
    if (known == 0) open.push(node);
    known = std::min(known + more, kMany);
  };
  while (!open.empty()) {
    const int32_t id = open.top();
    open.pop();
    if (id == 0) continue;
    const Node& node = nodes_[static_cast<size_t>(id)];
    const int64_t counts = times[id];
    if (node.b >= 0) {
      count(node.a, counts);
      count(node.b, counts);
      continue;
    }
    for (const auto& range : samples_.ranges(node.a)) {
      steps[range.first] += counts;
      steps[range.first + range.count] -= counts;
    }
  }
  for (const auto& range : domain) {
    steps[range.first];
    steps[range.first + range.count];
  }
  Holdings holdings;
  const auto note = [](std::vector<SampleRange>& list, int64_t from, int64_t to) {
    if (!list.empty() && list.back().first + list.back().count == from) list.back().count = to - list.back().first;
    else list.push_back({from, to - from});
  };
  size_t in = 0;
  int64_t held = 0;
  for (auto at = steps.begin(); at != steps.end() && std::next(at) != steps.end(); ++at) {
    const int64_t from = at->first, to = std::next(at)->first;
    held += at->second;
    while (in < domain.size() && domain[in].first + domain[in].count <= from) ++in;
    const bool wanted = in < domain.size() && domain[in].first <= from;
    if (wanted && held == 0) note(holdings.missing, from, to);
    if (wanted && held > 1) note(holdings.repeated, from, to);
    if (!wanted && held > 0) note(holdings.foreign, from, to);
  }
  return holdings;
}

uint64_t SumTable::order(int32_t sum) {
  // What was added is older than the sum.
  for (size_t i = orders_.size(); i <= static_cast<size_t>(sum); ++i) {
    const Node& node = nodes_[i];
    OrderDigest digest;
    if (i == 0) digest.add("nothing");
    else if (node.b >= 0)
      digest.add_unordered(orders_[static_cast<size_t>(node.a)], orders_[static_cast<size_t>(node.b)]);
    else
      for (const SampleRange& range : samples_.ranges(node.a)) digest.add(range.first).add(range.count);
    orders_.push_back(digest.value());
  }
  return orders_[static_cast<size_t>(sum)];
}

bool SumTable::complete(int32_t sum, int64_t count) {
  const auto known = complete_.find({sum, count});
  if (known != complete_.end()) return known->second;
  const bool exact = count > 0 ? compare(sum, {{0, count}}).exact() : sum == 0;
  complete_.emplace(std::pair(sum, count), exact);
  return exact;
}

}  // namespace piper::verify
