#include "runtime/exec/checks/replica_check.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "runtime/trace/digest_values.h"
#include "schemas/plan/names.h"

namespace piper::exec {

namespace {

constexpr int64_t kBlock = int64_t{1} << 20;  // bytes

// What every replica makes the same of; accumulators and running statistics are each rank's own.
bool is_replicated_state(plan::PlacementKind kind) {
  switch (kind) {
    case plan::PlacementKind::kValue:
    case plan::PlacementKind::kMaster:
    case plan::PlacementKind::kWorking:
    case plan::PlacementKind::kFirstMoment:
    case plan::PlacementKind::kSecondMoment: return true;
    case plan::PlacementKind::kGradient:
    case plan::PlacementKind::kState:
    case plan::PlacementKind::kConstant: return false;
  }
  return false;
}

std::string name_of(const plan::Placement& placement) {
  const plan::Part& part = placement.part;
  return std::string(plan::kind_name(placement.kind)) + " of '" + placement.name + "', " + std::to_string(part.count) +
         " elements from " + std::to_string(part.first);
}

std::string ranks_text(const std::vector<int32_t>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  return text;
}

// The value that more than half of them have; nothing where there is none.
std::optional<uint64_t> majority(const std::vector<uint64_t>& values) {
  for (const uint64_t value : values)
    if (2 * std::count(values.begin(), values.end(), value) > static_cast<int64_t>(values.size())) return value;
  return std::nullopt;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

Result<std::unique_ptr<ReplicaCheck>> ReplicaCheck::make(const LoadedRank& rank, hal::ControlChannel& control,
                                                         const hal::WaitControl& wait, int64_t every) {
  std::unique_ptr<ReplicaCheck> check(new ReplicaCheck(rank, control, wait, every));
  PIPER_RETURN_IF_ERROR(check->agree());
  return check;
}

Status ReplicaCheck::after(int64_t step) {
  if (step % every_ != 0) return {};
  PIPER_ASSIGN(const std::string difference, run(step));
  return difference.empty() ? Status() : Status::failure("R0811", difference);
}

Status ReplicaCheck::agree() {
  std::string mine;
  for (const plan::Placement& placement : rank_.plan->placements) {
    if (!is_replicated_state(placement.kind) || placement.part.count == 0) continue;
    kept_.push_back(
        {name_of(placement), rank_.at(placement.part.where), placement.part.count * dtype_bytes(placement.dtype)});
    mine += kept_.back().name + "\n";
  }
  PIPER_ASSIGN(const std::vector<std::string> texts, control_.allgather(mine, wait_));
  std::map<std::string, std::vector<int32_t>> keepers;
  for (size_t r = 0; r < texts.size(); ++r)
    for (const std::string& name : lines_of(texts[r])) {
      std::vector<int32_t>& ranks = keepers[name];
      if (ranks.empty() || ranks.back() != static_cast<int32_t>(r)) ranks.push_back(static_cast<int32_t>(r));
    }
  std::map<std::vector<int32_t>, Shared> by_ranks;
  for (const auto& [name, ranks] : keepers) {
    if (ranks.size() < 2) continue;
    Shared& shared = by_ranks[ranks];
    shared.ranks = ranks;
    shared.names.push_back(name);
    if (std::find(ranks.begin(), ranks.end(), rank_.plan->rank) == ranks.end()) continue;
    const auto own = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.name == name; });
    shared.mine.push_back(&*own);
    bytes_ += own->bytes;
  }
  for (auto& [ranks, shared] : by_ranks) shared_.push_back(std::move(shared));
  block_.resize(static_cast<size_t>(kBlock));
  return {};
}

// Block by block: the digest of one is the seed of the next.
Result<uint64_t> ReplicaCheck::digest(const Kept& kept) {
  uint64_t digest = 0;
  for (int64_t at = 0; at < kept.bytes; at += kBlock) {
    const int64_t some = std::min(kBlock, kept.bytes - at);
    PIPER_RETURN_IF_ERROR(rank_.device().read(block_.data(), kept.at + at, some));
    digest = trace::digest_bytes(block_.data(), some, digest);
  }
  return digest;
}

Result<std::vector<std::vector<uint64_t>>> ReplicaCheck::exchange(const std::vector<uint64_t>& mine) {
  const std::string text(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(uint64_t));
  PIPER_ASSIGN(const std::vector<std::string> all, control_.allgather(text, hal::patient(wait_)));
  std::vector<std::vector<uint64_t>> digests;
  for (const std::string& one : all) {
    digests.emplace_back(one.size() / sizeof(uint64_t));
    std::memcpy(digests.back().data(), one.data(), digests.back().size() * sizeof(uint64_t));
  }
  return digests;
}

Result<std::string> ReplicaCheck::run(int64_t step) {
  std::vector<uint64_t> mine;  // one for each of shared_ that this rank is of
  for (const Shared& shared : shared_) {
    if (shared.mine.empty()) continue;
    uint64_t digest_of_all = 0;
    for (const Kept* kept : shared.mine) {
      PIPER_ASSIGN(const uint64_t one, digest(*kept));
      digest_of_all = trace::digest_bytes(&one, sizeof one, digest_of_all);
    }
    mine.push_back(digest_of_all);
  }
  PIPER_ASSIGN(const std::vector<std::vector<uint64_t>> all, exchange(mine));
  std::vector<size_t> next(all.size(), 0);
  for (const Shared& shared : shared_) {
    bool equal = true;
    std::optional<uint64_t> first;
    for (const int32_t r : shared.ranks) {
      const auto rank = static_cast<size_t>(r);
      const uint64_t one = all[rank].at(next[rank]++);
      equal = equal && one == first.value_or(one);
      first = first.value_or(one);
    }
    if (equal) continue;
    PIPER_ASSIGN(std::string text, name_difference(shared));
    text = "after step " + std::to_string(step) + " " + text;
    return text + (agreed_step_ == 0 ? "; this is the first check of the run"
                                     : "; after step " + std::to_string(agreed_step_) + " all were equal");
  }
  agreed_step_ = step;
  return std::string();
}

// Who differs in the first tensor that is not the same on all of them. Collective, for every rank comes here alike.
Result<std::string> ReplicaCheck::name_difference(const Shared& shared) {
  std::vector<uint64_t> mine;
  for (const Kept* kept : shared.mine) {
    PIPER_ASSIGN(const uint64_t one, digest(*kept));
    mine.push_back(one);
  }
  PIPER_ASSIGN(const std::vector<std::vector<uint64_t>> all, exchange(mine));
  for (size_t i = 0; i < shared.names.size(); ++i) {
    std::vector<uint64_t> values;
    for (const int32_t rank : shared.ranks) values.push_back(all[static_cast<size_t>(rank)].at(i));
    if (std::count(values.begin(), values.end(), values.front()) == static_cast<int64_t>(values.size())) continue;
    const std::optional<uint64_t> most = majority(values);
    if (!most)
      return "ranks " + ranks_text(shared.ranks) + " differ in " + shared.names[i] +
             (shared.ranks.size() == 2 ? "; with two, it is not known which one is right" : "");
    std::vector<int32_t> others;
    for (size_t r = 0; r < values.size(); ++r)
      if (values[r] != *most) others.push_back(shared.ranks[r]);
    return (others.size() == 1 ? "rank " : "ranks ") + ranks_text(others) + " differ" +
           (others.size() == 1 ? "s" : "") + " from the other replicas (of ranks " + ranks_text(shared.ranks) +
           ") in " + shared.names[i];
  }
  return "ranks " + ranks_text(shared.ranks) + " differ, and no more when they were asked again";
}

}  // namespace piper::exec
