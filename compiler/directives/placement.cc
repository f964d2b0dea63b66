#include "compiler/directives/placement.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "schemas/base/check.h"

namespace piper::directives {
namespace {

std::string list(const std::vector<int32_t>& ranks) {
  std::string text = "[";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text + "]";
}

// The numbers of microbatches (given the largest group) that would divide the batch.
std::string dividing_counts(int64_t batch, int64_t largest_group) {
  std::string text;
  int shown = 0;
  for (int64_t m = 1; m * largest_group <= batch && shown < 12; ++m)
    if (batch % (m * largest_group) == 0) {
      text += (text.empty() ? "" : ", ") + std::to_string(m);
      ++shown;
    }
  return text.empty() ? "none" : text;
}

Status check_group_sizes(const Placement& placement, int64_t batch, const ir::Dag& dag, diag::Diagnostics& diags) {
  size_t largest = 1;
  diag::Span span;
  for (size_t c = 0; c < dag.chunks.size(); ++c)
    for (int32_t m = 0; m < dag.num_microbatches; ++m) {
      const Claim& claim = placement.at(ir::ChunkId(c), m);
      if (claim.ranks.size() > largest) {
        largest = claim.ranks.size();
        span = claim.span;
      }
    }
  if (batch % (static_cast<int64_t>(largest) * dag.num_microbatches) != 0) {
    auto error = diags.error("P0223", span);
    error << "a batch of " << batch << " does not divide into " << dag.num_microbatches << " microbatches on "
          << largest << " replicas";
    error.note("numbers of microbatches that would do: " + dividing_counts(batch, static_cast<int64_t>(largest)));
    return error;
  }
  return Status();
}

// A claim on the same chunk, else on the chunk before it that has one, else on the first behind it.
std::pair<size_t, const Claim*> nearest_claim(const Placement& placement, const ir::Dag& dag, size_t chunk) {
  const auto claim_on = [&](size_t c) -> const Claim* {
    for (int32_t m = 0; m < dag.num_microbatches; ++m)
      if (const Claim& claim = placement.at(ir::ChunkId(c), m); !claim.ranks.empty()) return &claim;
    return nullptr;
  };
  for (size_t c = chunk + 1; c-- > 0;)
    if (const Claim* claim = claim_on(c)) return {c, claim};
  for (size_t c = chunk + 1; c < dag.chunks.size(); ++c)
    if (const Claim* claim = claim_on(c)) return {c, claim};
  PIPER_CHECK(false, "no chunk has a device");
  return {};
}

// Groups of one size cut a microbatch into the same pieces, so a device that is in two of them has one piece: it stands
// at the same position.
Status check_positions(const Placement& placement, const ir::Dag& dag, diag::Diagnostics& diags) {
  for (int32_t m = 0; m < dag.num_microbatches; ++m) {
    size_t alike = 0;
    while (alike < dag.chunks.size() && placement.as_before(ir::ChunkId(alike), m)) ++alike;
    if (alike == dag.chunks.size()) continue;
    std::vector<size_t> distinct;  // chunks, the first of each device list
    for (size_t c = 0; c < dag.chunks.size(); ++c) {
      const Claim& claim = placement.at(ir::ChunkId(c), m);
      const auto claims_same = [&](size_t other) { return placement.at(ir::ChunkId(other), m).ranks == claim.ranks; };
      if (claim.ranks.size() > 1 && std::none_of(distinct.begin(), distinct.end(), claims_same)) distinct.push_back(c);
    }
    std::map<std::pair<size_t, int32_t>, std::pair<size_t, size_t>> pieces;  // (size, device) -> (position, chunk)
    for (size_t c : distinct) {
      const Claim& claim = placement.at(ir::ChunkId(c), m);
      for (size_t position = 0; position < claim.ranks.size(); ++position) {
        const auto [known, fresh] =
            pieces.emplace(std::make_pair(claim.ranks.size(), claim.ranks[position]), std::make_pair(position, c));
        if (fresh || known->second.first == position) continue;
        const size_t other = known->second.second;
        auto error = diags.error("P0215", claim.span);
        error << "device " << claim.ranks[position] << " is replica " << position << " of " << dag.chunks[c].name
              << ", but replica " << known->second.first << " of " << dag.chunks[other].name
              << ": it would have two parts of a microbatch";
        error.note("the other group is here", placement.at(ir::ChunkId(other), m).span);
        error.help("list the devices that groups of one size share at the same positions");
        return error;
      }
    }
  }
  return Status();
}

}  // namespace

Status check_nesting(const Placement& placement, const ir::Dag& dag, diag::Diagnostics& diags) {
  for (const ir::ChunkCrossing& crossing : dag.crossings)
    for (int32_t m = 0; m < dag.num_microbatches; ++m) {
      const Claim& a = placement.at(crossing.from, m);
      const Claim& b = placement.at(crossing.to, m);
      const size_t large = std::max(a.ranks.size(), b.ranks.size()), small = std::min(a.ranks.size(), b.ranks.size());
      if (small == 0 || large % small == 0) continue;
      auto error = diags.error("P0216", b.span);
      error << dag.chunks[crossing.from.index].name << " on " << a.ranks.size() << " devices feeds "
            << dag.chunks[crossing.to.index].name << " on " << b.ranks.size() << ": the groups do not nest";
      error.note("the other group is here", a.span);
      error.help("choose sizes of which one divides the other");
      return error;
    }
  return Status();
}

void Placement::fuse_chunks(const std::vector<ir::ChunkId>& into) {
  const auto row = [&](size_t c) { return claims_.begin() + static_cast<int64_t>(c) * num_microbatches_; };
  for (size_t c = 1; c < into.size(); ++c) {
    if (into[c].index == c || into[c] == into[c - 1]) continue;
    std::move(row(c), row(c + 1), row(into[c].index));
    replicated[into[c].index] = replicated[c];
    sharded[into[c].index] = sharded[c];
  }
  const size_t fused = into.empty() ? 0 : into.back().index + 1;
  claims_.resize(fused * num_microbatches_);
  replicated.resize(fused);
  sharded.resize(fused);
}

Status settle(const Placement& placement, int64_t batch, ir::Dag& dag, diag::Diagnostics& diags) {
  const size_t num_chunks = dag.chunks.size();
  bool any = false;
  for (size_t c = 0; c < num_chunks; ++c)
    for (int32_t m = 0; m < dag.num_microbatches; ++m) any |= !placement.at(ir::ChunkId(c), m).ranks.empty();
  std::set<int32_t> used;
  diag::Span largest_rank;  // where the largest rank so far stands
  for (size_t c = 0; c < num_chunks; ++c) {
    for (int32_t m = 0; m < dag.num_microbatches; ++m) {
      if (placement.as_before(ir::ChunkId(c), m)) continue;
      const Claim& claim = placement.at(ir::ChunkId(c), m);
      if (any && claim.ranks.empty()) {
        const auto [near, its_claim] = nearest_claim(placement, dag, c);
        auto error = diags.error("P0219", its_claim->span);
        error << dag.chunks[c].name << (dag.split ? ", microbatch " + std::to_string(m) + "," : "")
              << " has no device, but other chunks have";
        error.note(near == c ? "other microbatches of it are placed here" : dag.chunks[near].name + " is placed here");
        error.help("extend a `place` to it");
        return error;
      }
      if (claim.ranks.size() > 1 && claim.replicated.line == 0 && placement.sharded[c].line == 0) {
        auto error = diags.error("P0214", claim.span);
        error << dag.chunks[c].name << " is placed on " << claim.ranks.size()
              << " devices without a replicate or shard over " << list(claim.ranks);
        error.help("add {op: replicate, filter: ..., devices: " + list(claim.ranks) + "}");
        return error;
      }
      for (int32_t r : claim.ranks) {
        if (used.empty() || r > *used.rbegin()) largest_rank = claim.span;
        used.insert(r);
      }
      for (int32_t before = 0; before < m; ++before) {
        const Claim& other = placement.at(ir::ChunkId(c), before);
        if (claim.ranks == other.ranks) break;  // compared with the ones before it already
        for (int32_t r : claim.ranks)
          if (std::find(other.ranks.begin(), other.ranks.end(), r) != other.ranks.end())
            return diags.error("P0215", claim.span)
                   << dag.chunks[c].name << " lives on unequal groups that overlap: " << list(other.ranks) << " and "
                   << list(claim.ranks);
      }
    }
  }
  if (any) {
    const int32_t world = *used.rbegin() + 1;
    for (int32_t r = 0; r < world; ++r)
      if (!used.count(r))
        return diags.error("P0227", largest_rank) << "rank " << r << " has no work, but rank " << world - 1
                                                  << " has; ranks are numbered from 0 without gaps";
    dag.world_size = world;
  }
  PIPER_RETURN_IF_ERROR(check_group_sizes(placement, batch, dag, diags));
  PIPER_RETURN_IF_ERROR(check_positions(placement, dag, diags));

  dag.placement.assign(num_chunks, std::vector<ir::GroupId>(dag.num_microbatches));
  dag.chunk_stream.assign(num_chunks, 0);
  dag.chunk_prov.assign(num_chunks, ir::ProvId());
  for (size_t c = 0; c < num_chunks; ++c) {
    for (int32_t m = 0; m < dag.num_microbatches; ++m) {
      const Claim& claim = placement.at(ir::ChunkId(c), m);
      dag.placement[c][m] = placement.as_before(ir::ChunkId(c), m)
                                ? dag.placement[c][m - 1]
                                : dag.intern_group(any ? claim.ranks : std::vector<int32_t>{0});
    }
    const Claim& first = placement.at(ir::ChunkId(c), 0);
    dag.chunk_stream[c] = dag.intern_stream(first.stream);
    dag.chunk_prov[c] = any ? dag.provenance.directive({"place", diags.place(first.directive)})
                            : dag.provenance.unknown("no place: everything on device 0");
  }
  return Status();
}

}  // namespace piper::directives
