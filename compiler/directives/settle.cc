#include "compiler/directives/resolution.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/directives/place.h"
#include "compiler/directives/replicate.h"
#include "compiler/directives/shard_experts.h"
#include "compiler/directives/shard_weights.h"
#include "compiler/strategy/directive_args.h"
#include "schemas/base/check.h"

namespace piper::directives {
namespace {

// A claim on the same region, else on the region before it that has one, else on the first after it.
std::pair<size_t, const Claim*> nearest_claim(const Resolution& draft, size_t chunk) {
  const auto claim_on = [&](size_t c) -> const Claim* {
    for (int32_t m = 0; m < draft.step.num_microbatches; ++m)
      if (const Claim& claim = draft.claims.at(ir::ChunkId(c), m); !claim.ranks.empty()) return &claim;
    return nullptr;
  };
  for (size_t c = chunk + 1; c-- > 0;)
    if (const Claim* claim = claim_on(c)) return {c, claim};
  for (size_t c = chunk + 1; c < draft.regions.size(); ++c)
    if (const Claim* claim = claim_on(c)) return {c, claim};
  PIPER_CHECK(false, "no chunk has a device");
  return {};
}

// Device groups of equally many replicas cut a microbatch into the same pieces. A device of two such groups must be the
// same replica in both, since it holds one piece.
Status check_positions(const Resolution& draft, diag::Diagnostics& diags) {
  for (int32_t m = 0; m < draft.step.num_microbatches; ++m) {
    size_t alike = 0;
    while (alike < draft.regions.size() && draft.claims.as_before(ir::ChunkId(alike), m)) ++alike;
    if (alike == draft.regions.size()) continue;
    std::vector<size_t> distinct;  // chunks, the first of each device list
    for (size_t c = 0; c < draft.regions.size(); ++c) {
      const Claim& claim = draft.claims.at(ir::ChunkId(c), m);
      const auto claims_same = [&](size_t other) {
        return draft.claims.at(ir::ChunkId(other), m).ranks == claim.ranks;
      };
      if (claim.replicas() > 1 && std::none_of(distinct.begin(), distinct.end(), claims_same)) distinct.push_back(c);
    }
    // (number of replicas, device) -> (which replica it is, chunk)
    std::map<std::pair<int64_t, int32_t>, std::pair<int64_t, size_t>> pieces;
    for (size_t c : distinct) {
      const Claim& claim = draft.claims.at(ir::ChunkId(c), m);
      for (size_t position = 0; position < claim.ranks.size(); ++position) {
        const int64_t replica = static_cast<int64_t>(position) / claim.places;
        const auto [known, fresh] =
            pieces.emplace(std::make_pair(claim.replicas(), claim.ranks[position]), std::make_pair(replica, c));
        if (fresh || known->second.first == replica) continue;
        const size_t other = known->second.second;
        auto error = diags.error("P0215", claim.span);
        error << "device " << claim.ranks[position] << " is replica " << replica << " of " << draft.regions[c].name
              << ", but replica " << known->second.first << " of " << draft.regions[other].name
              << ": it would have two parts of a microbatch";
        error.note("the other group is here", draft.claims.at(ir::ChunkId(other), m).span);
        error.help("list the devices that groups of one size share at the same positions");
        return error;
      }
    }
  }
  return Status();
}

// Every region has devices, several of them only where something keeps them equal, and no rank is left out.
Status check_devices(const Resolution& draft, bool any, int32_t& world_size, diag::Diagnostics& diags) {
  const size_t num_chunks = draft.regions.size();
  std::set<int32_t> used;
  diag::Span largest_rank;  // where the largest rank so far is
  for (size_t c = 0; c < num_chunks; ++c) {
    for (int32_t m = 0; m < draft.step.num_microbatches; ++m) {
      if (draft.claims.as_before(ir::ChunkId(c), m)) continue;
      const Claim& claim = draft.claims.at(ir::ChunkId(c), m);
      if (any && claim.ranks.empty()) {
        const auto [near, its_claim] = nearest_claim(draft, c);
        auto error = diags.error("P0219", its_claim->span);
        error << draft.regions[c].name << (draft.step.split ? ", microbatch " + std::to_string(m) + "," : "")
              << " has no device, but other chunks have";
        error.note(near == c ? "other microbatches of it are placed here"
                             : draft.regions[near].name + " is placed here");
        error.help("extend a `place` to it");
        return error;
      }
      if (claim.replicas() > 1 && claim.replicated_by.line == 0 && draft.claims.sharded[c].claimed_by.line == 0) {
        auto error = diags.error("P0214", claim.span);
        error << draft.regions[c].name << " is placed on " << claim.ranks.size()
              << " devices without a replicate or shard over " << strategy::to_string(claim.ranks);
        error.help("add {op: replicate, filter: ..., devices: " + strategy::to_string(claim.ranks) + "}");
        return error;
      }
      for (int32_t r : claim.ranks) {
        if (used.empty() || r > *used.rbegin()) largest_rank = claim.span;
        used.insert(r);
      }
      for (int32_t before = 0; before < m; ++before) {
        const Claim& other = draft.claims.at(ir::ChunkId(c), before);
        if (claim.ranks == other.ranks) break;  // compared with the ones before it already
        for (int32_t r : claim.ranks)
          if (std::find(other.ranks.begin(), other.ranks.end(), r) != other.ranks.end())
            return diags.error("P0215", claim.span)
                   << draft.regions[c].name
                   << " is on different groups that overlap: " << strategy::to_string(other.ranks) << " and "
                   << strategy::to_string(claim.ranks);
      }
    }
  }
  if (!any) return Status();
  world_size = *used.rbegin() + 1;
  for (int32_t r = 0; r < world_size; ++r)
    if (!used.count(r))
      return diags.error("P0227", largest_rank) << "rank " << r << " has no work, but rank " << world_size - 1
                                                << " has; ranks are numbered from 0 without gaps";
  return Status();
}

// A region that is sharded and that nothing else places runs on all devices of its shard.
void claim_for_shards(Claims& claims) {
  for (size_t c = 0; c < claims.sharded.size(); ++c)
    for (int32_t m = 0; m < claims.num_microbatches() && claims.sharded[c].claimed_by.line != 0; ++m)
      if (claims.at(ir::ChunkId(c), m).ranks.empty()) claims.at(ir::ChunkId(c), m) = claims.sharded[c];
}

void write_placement(Resolution& draft, bool any, const diag::Diagnostics& diags) {
  ir::Distribution& distribution = draft.distribution;
  for (size_t c = 0; c < draft.regions.size(); ++c) {
    const ir::ChunkId region(c);
    ir::ChunkProperties& row = distribution.chunks[c];
    row.groups.resize(draft.step.num_microbatches);
    row.devices.resize(draft.step.num_microbatches);
    for (int32_t m = 0; m < draft.step.num_microbatches; ++m) {
      const Claim& claim = draft.claims.at(region, m);
      row.groups[m] =
          draft.claims.as_before(region, m)
              ? row.groups[m - 1]
              : distribution.intern_group(any ? ir::DeviceGroup{claim.ranks, claim.places} : ir::DeviceGroup{{0}});
      row.devices[m] = claim.span;
    }
    const Claim& first = draft.claims.at(region, 0);
    row.message_stream = distribution.intern_stream(
        first.stream.empty() ? strategy::default_of<std::string>(place_spec(), "stream") : first.stream);
    row.placed_by = any ? draft.provenance.directive({"place", diags.place(first.claimed_by)})
                        : draft.provenance.unknown("no place: everything on device 0");
  }
}

}  // namespace

Status settle(Resolution& draft, diag::Diagnostics& diags) {
  claim_for_shards(draft.claims);
  PIPER_RETURN_IF_ERROR(share_samples(draft, diags));
  bool any = false;
  for (size_t c = 0; c < draft.regions.size(); ++c) any |= !draft.claims.is_open(ir::ChunkId(c));
  take_groups(draft);
  PIPER_RETURN_IF_ERROR(check_shards(draft, diags));
  PIPER_RETURN_IF_ERROR(check_devices(draft, any, draft.distribution.world_size, diags));
  PIPER_RETURN_IF_ERROR(check_positions(draft, diags));
  write_placement(draft, any, diags);
  replicate_unasked(draft);
  return Status();
}

}  // namespace piper::directives
