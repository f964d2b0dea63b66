#include "compiler/driver/schedule_ranks.h"

#include <algorithm>
#include <map>

#include "compiler/strategy/directive_args.h"

namespace piper::driver {
namespace {

using directives::Claim;

constexpr size_t kMaxListed = 16;  // rows of a table that a help line spells out

std::string schedule_text(const strategy::Schedule& schedule) {
  return schedule.csv.empty() ? "the family '" + schedule.family + "'" : "the table '" + schedule.csv + "'";
}

std::string told(const std::vector<std::string>& parts) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

// "stage 1", or "stage 1, microbatch 4" where the stage's device depends on the microbatch.
std::string piece_text(const strategy::ScheduleTable& table, const StagePlaces& places, int32_t stage, int32_t m) {
  const auto& ranks = table.stage_rank[stage];
  const auto& claims = places.claims[stage];
  const auto list = [](const Claim* claim) { return claim == nullptr ? std::vector<int32_t>() : claim->ranks; };
  const bool same =
      std::all_of(ranks.begin(), ranks.end(), [&](int32_t r) { return r == ranks[0]; }) &&
      std::all_of(claims.begin(), claims.end(), [&](const Claim* c) { return list(c) == list(claims[0]); });
  return "stage " + std::to_string(stage) + (same ? "" : ", microbatch " + std::to_string(m));
}

// Which stages each rank owns: "rank 0: stages 0 and 3; rank 1: stages 1 and 2".
std::string layout_text(const strategy::ScheduleTable& table) {
  std::string text;
  for (size_t row = 0; row < table.rows.size() && row < kMaxListed; ++row) {
    std::vector<std::string> whole, parts;
    for (size_t s = 0; s < table.stage_rank.size(); ++s) {
      std::vector<int32_t> mine;
      for (size_t m = 0; m < table.stage_rank[s].size(); ++m)
        if (table.stage_rank[s][m] == static_cast<int32_t>(row)) mine.push_back(static_cast<int32_t>(m));
      if (mine.empty()) continue;
      if (mine.size() == table.stage_rank[s].size()) {
        whole.push_back(std::to_string(s));
      } else {
        std::string numbers;
        for (const auto& [first, last] : as_ranges(mine))
          numbers +=
              (numbers.empty() ? "" : ", ") + std::to_string(first) + (last > first ? ".." + std::to_string(last) : "");
        parts.push_back("stage " + std::to_string(s) + " (MB " + numbers + ")");
      }
    }
    if (!whole.empty()) parts.insert(parts.begin(), (whole.size() == 1 ? "stage " : "stages ") + told(whole));
    text += (row > 0 ? "; " : "") + ("rank " + std::to_string(row) + ": " + told(parts));
  }
  return text + (table.rows.size() > kMaxListed ? "; ..." : "");
}

Status check_disjoint(const StagePlaces& places, diag::Diagnostics& diags) {
  std::map<int32_t, const Claim*> owner;
  for (const auto& row : places.claims)
    for (const Claim* claim : row) {
      if (claim == nullptr) continue;
      for (int32_t rank : claim->ranks) {
        const auto [it, fresh] = owner.emplace(rank, claim);
        if (fresh || it->second->ranks == claim->ranks) continue;
        auto error = diags.error("P0232", claim->span);
        error << "the groups " << strategy::to_string(it->second->ranks) << " and " << strategy::to_string(claim->ranks)
              << " share device " << rank
              << "; a schedule needs groups that are equal, in the same order, or have nothing in common";
        error.note("the other group is here", it->second->span);
        return error;
      }
    }
  return Status();
}

// With `ranks`, the schedule places what the user leaves open; without, it would have to guess.
Status check_all_or_none(const strategy::Schedule& schedule, const StagePlaces& places, diag::Diagnostics& diags) {
  bool any = false;
  for (const auto& row : places.claims)
    any |= std::any_of(row.begin(), row.end(), [](const Claim* c) { return c != nullptr; });
  if (!any || !schedule.ranks.empty()) return Status();
  for (int32_t s = 0; s < places.num_stages(); ++s) {
    const auto& row = places.claims[s];
    const auto open = std::find(row.begin(), row.end(), nullptr);
    if (open == row.end()) continue;
    const bool whole = std::all_of(row.begin(), row.end(), [](const Claim* c) { return c == nullptr; });
    auto error = diags.error("P0219", schedule.span);
    error << "stage " << s << (whole ? "" : ", microbatch " + std::to_string(open - row.begin()))
          << " has no `place`, but other stages have";
    error.help("place every stage by its " + schedule.stages_tag + ", or place none: then the schedule places them");
    return error;
  }
  return Status();
}

}  // namespace

std::vector<std::pair<int64_t, int64_t>> as_ranges(const std::vector<int32_t>& ascending) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (int32_t n : ascending) {
    if (!ranges.empty() && ranges.back().second + 1 == n) {
      ranges.back().second = n;
    } else {
      ranges.emplace_back(n, n);
    }
  }
  return ranges;
}

Result<StagePlaces> read_stage_places(const strategy::Schedule& schedule, const directives::Resolution& draft,
                                      diag::Diagnostics& diags) {
  const directives::Claims& claims = draft.claims;
  const int32_t M = draft.step.num_microbatches;
  StagePlaces places;
  std::vector<bool> exists;                  // [stage]: has a chunk
  std::vector<const ir::Chunk*> read_first;  // [stage]: the first chunk whose claim was read
  for (size_t c = 0; c < draft.regions.size(); ++c)
    for (const ir::TagValue& tag : draft.regions[c].tags) {
      if (tag.tag != schedule.stages_tag) continue;
      if (tag.index >= places.num_stages()) {
        places.claims.resize(tag.index + 1, std::vector<const Claim*>(M, nullptr));
        places.replicated.resize(tag.index + 1, false);
        exists.resize(tag.index + 1, false);
        read_first.resize(tag.index + 1, nullptr);
      }
      exists[tag.index] = true;
      if (claims.replicated_by[c].line != 0) places.replicated[tag.index] = true;
      // What a `shard` alone claims is left to the schedule where `ranks` says it all: `shard` then finds its region
      // placed. Else the stage is where the shard is.
      const Claim& sharded = claims.sharded[c];
      if (!schedule.ranks.empty() && sharded.claimed_by.line != 0 && claims.at(ir::ChunkId(c), 0).ranks.empty())
        continue;
      const bool first = read_first[tag.index] == nullptr;
      if (first) read_first[tag.index] = &draft.regions[c];
      for (int32_t m = 0; m < M; ++m) {
        const Claim& said = claims.at(ir::ChunkId(c), m);
        const Claim& claim = said.ranks.empty() ? sharded : said;
        const Claim*& known = places.claims[tag.index][m];
        if (!first && (known == nullptr) != claim.ranks.empty()) {
          auto error = diags.error("P0219", known == nullptr ? claim.span : known->span);
          const ir::Chunk& open = known == nullptr ? *read_first[tag.index] : draft.regions[c];
          error << "a part of stage " << tag.index << " is placed, but not " << open.name;
          error.help("place the whole stage, {" + schedule.stages_tag + ": " + std::to_string(tag.index) + "}");
          return error;
        }
        if (known != nullptr && known->ranks != claim.ranks) {
          auto error = diags.error("P0232", claim.span);
          error << "a schedule runs stage " << tag.index << " as one unit, but its parts are placed on "
                << strategy::to_string(known->ranks) << " and " << strategy::to_string(claim.ranks);
          error.note("the other place is here", known->span);
          return error;
        }
        if (!claim.ranks.empty()) known = &claim;
      }
    }
  if (places.claims.empty()) {
    auto error = diags.error("P0203", schedule.span);
    error << "no node has tag '" << schedule.stages_tag << "', by which the schedule finds its stages";
    error.help("annotate the stages, e.g. {tag: " + schedule.stages_tag + ", stages: 4, balance: flops}");
    return error;
  }
  for (int32_t s = 0; s < places.num_stages(); ++s)
    if (!exists[s])
      return diags.error("P0240", schedule.span)
             << "no node has " << schedule.stages_tag << " " << s << ", but " << schedule.stages_tag << " "
             << places.num_stages() - 1 << " exists; stages are numbered without gaps";
  PIPER_RETURN_IF_ERROR(check_disjoint(places, diags));
  PIPER_RETURN_IF_ERROR(check_all_or_none(schedule, places, diags));
  for (int32_t m = 0; m < M; ++m)
    for (int32_t s = 0; s < places.num_stages(); ++s) {
      const Claim* claim = places.claims[s][m];
      if (claim == nullptr ||
          std::find(places.groups.begin(), places.groups.end(), claim->ranks) != places.groups.end())
        continue;
      places.groups.push_back(claim->ranks);
    }
  return places;
}

Result<std::vector<strategy::Devices>> assign_ranks(const strategy::Schedule& schedule,
                                                    const strategy::ScheduleTable& table, const StagePlaces& places,
                                                    diag::Diagnostics& diags) {
  struct Row {
    strategy::Devices devices;
    int32_t stage = -1, microbatch = 0;  // that the claim was read from; -1: from `ranks`
  };
  std::vector<Row> rows(table.rows.size());
  for (size_t r = 0; r < schedule.ranks.size() && r < rows.size(); ++r) rows[r].devices = schedule.ranks[r];
  const int32_t M = static_cast<int32_t>(table.stage_rank[0].size());
  for (int32_t m = 0; m < M; ++m)
    for (int32_t s = 0; s < places.num_stages(); ++s) {
      const Claim* claim = places.claims[s][m];
      if (claim == nullptr) continue;
      const int32_t rank = table.stage_rank[s][m];
      Row& row = rows[rank];
      if (row.devices.ranks == claim->ranks) continue;
      if (!row.devices.ranks.empty() && row.stage < 0) {
        auto error = diags.error("P0217", claim->span);
        error << piece_text(table, places, s, m) << " is placed on " << strategy::to_string(claim->ranks)
              << ", but 'ranks' of the schedule says " << strategy::to_string(row.devices);
        error.note("'ranks' is here", row.devices.span);
        error.help("leave 'ranks' out: the schedule reads its ranks from the placement");
        return error;
      }
      const auto other =
          std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.devices.ranks == claim->ranks; });
      if (row.devices.ranks.empty() && other == rows.end()) {
        row = {{claim->ranks, claim->span}, s, m};
        continue;
      }
      auto error = diags.error("P0232", claim->span);
      if (!row.devices.ranks.empty()) {
        error << schedule_text(schedule) << " runs " << piece_text(table, places, row.stage, row.microbatch) << " and "
              << piece_text(table, places, s, m) << " on one rank, but they are placed on "
              << strategy::to_string(row.devices) << " and " << strategy::to_string(claim->ranks);
        error.note("the other place is here", row.devices.span);
      } else {
        error << schedule_text(schedule) << " runs " << piece_text(table, places, other->stage, other->microbatch)
              << " and " << piece_text(table, places, s, m) << " on different ranks, but both are placed on "
              << strategy::to_string(claim->ranks);
        error.note("the other place is here", other->devices.span);
      }
      error.help("one device group per rank of the schedule: " + layout_text(table));
      return error;
    }
  std::vector<strategy::Devices> devices;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (places.groups.empty() && schedule.ranks.empty()) rows[r].devices = {{static_cast<int32_t>(r)}, schedule.span};
    devices.push_back(rows[r].devices);
  }
  return devices;
}

}  // namespace piper::driver
