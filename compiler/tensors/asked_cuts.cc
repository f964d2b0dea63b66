#include "compiler/tensors/asked_cuts.h"

#include <algorithm>
#include <set>

#include "compiler/diag/unmatched_globs.h"
#include "compiler/ir/attrs_text.h"
#include "compiler/tensors/cut_tables.h"
#include "compiler/tensors/products.h"
#include "schemas/base/glob.h"

namespace piper::tensors {

using ir::CutDim;
using ir::OpId;
using ir::ValueId;

namespace {

// "[64, 192] as [64, 96]": a weight, and what each place has of it.
std::string shape_text(std::vector<int64_t> shape, const PartAlong& along, int64_t places) {
  const std::string whole = ir::list_text(shape);
  int64_t& extent = shape[static_cast<size_t>(along.axis)];
  extent = part_extent(extent, places);
  return whole + " as " + ir::list_text(shape);
}

}  // namespace

std::vector<ChunkCut> find_chunk_cuts(const ir::Distribution& distribution) {
  std::vector<ChunkCut> cuts;
  for (const ir::ChunkProperties& row : distribution.chunks) {
    cuts.emplace_back();
    if (!row.seeds.empty())
      cuts.back() = {row.seeds[0].cut, distribution.cuts[static_cast<size_t>(row.seeds[0].cut)].places(),
                     row.shard >= 0 && distribution.cut_of_experts(row.shard) >= 0};
  }
  return cuts;
}

AskedCuts::AskedCuts(const ir::ChunkedGraph& chunked, const ir::Distribution& distribution,
                     const std::vector<ChunkCut>& chunks, diag::Diagnostics& diags)
    : chunked_(chunked), graph_(chunked.graph), distribution_(distribution), chunks_(chunks), diags_(diags) {}

Result<FollowedCuts> AskedCuts::follow() {
  find_tables();
  PIPER_ASSIGN(const std::vector<OpId> seeds, find_seeds());
  FollowedCuts found = follow(seeds);
  PIPER_RETURN_IF_ERROR(check_named(found));
  PIPER_RETURN_IF_ERROR(check_named_tables());
  return found;
}

// The directive that asks for rows of a table, of those that do in a chunk; null: none.
const ir::CutSeed* AskedCuts::asks_for(const Table& table) const {
  for (const ir::CutSeed& seed : asked(table.chunk))
    if (seed.dim == CutDim::kVocabulary &&
        (seed.weights.empty() || std::any_of(seed.weights.begin(), seed.weights.end(), [&](const std::string& glob) {
           return glob_covers(glob, parameter(table.parameter).names);
         })))
      return &seed;
  return nullptr;
}

void AskedCuts::find_tables() {
  std::vector<bool> vocabulary;
  for (size_t c = 0; c < chunks_.size(); ++c)
    vocabulary.push_back(std::any_of(asked(ir::ChunkId(c)).begin(), asked(ir::ChunkId(c)).end(),
                                     [](const ir::CutSeed& seed) { return seed.dim == CutDim::kVocabulary; }));
  candidates_ = tensors::find_tables(graph_, chunks_, vocabulary);
  for (const Table& table : candidates_)
    if (asks_for(table) != nullptr) tables_.push_back(table);
}

// A table is cut for all of its readers, or for none.
FollowedCuts AskedCuts::follow(const std::vector<OpId>& seeds) {
  for (;;) {
    std::vector<OpId> logits;
    for (const Table& table : tables_) logits.insert(logits.end(), table.products.begin(), table.products.end());
    FollowedCuts found = follow_cuts(graph_, chunks_, seeds, logits);
    const size_t before = tables_.size();
    for (const Obstacle& obstacle : found.obstacles)
      std::erase_if(tables_, [&](const Table& table) {
        const bool stops = std::any_of(table.products.begin(), table.products.end(), [&](OpId product) {
          return std::count(obstacle.seeds.begin(), obstacle.seeds.end(), product) > 0;
        });
        if (stops) stopped_.push_back({table, obstacle});
        return stops;
      });
    if (tables_.size() == before) return found;
  }
}

Result<std::vector<OpId>> AskedCuts::find_seeds() {
  const ir::Uses uses = graph_.uses();
  std::vector<OpId> logits;  // products of tables
  for (const Table& table : tables_) logits.insert(logits.end(), table.products.begin(), table.products.end());
  std::vector<OpId> products;  // in chunks that are cut
  for (size_t i = 0; i < graph_.num_ops(); ++i) {
    const ir::Op& op = graph_.op(OpId(i));
    if (chunks_[op.chunk.index].cut < 0) continue;
    const ValueId weight = tensors::weight_of(graph_, uses, op);
    if (!weight.valid() || std::count(logits.begin(), logits.end(), OpId(i)) > 0) continue;
    products.push_back(OpId(i));
    weights_.emplace(OpId(i), weight);
  }
  PIPER_RETURN_IF_ERROR(check_globs(products));
  std::vector<OpId> seeds;
  for (const OpId id : products) {
    const ir::CutSeed* by = nullptr;
    for (const ir::CutSeed& seed : asked(graph_.op(id).chunk))
      if (seed.dim == CutDim::kColumn && (seed.weights.empty() || matches(seed, id))) by = &seed;
    if (by == nullptr) continue;
    if (!by->weights.empty()) named_.emplace(id, by);
    const int64_t features = features_of(graph_, graph_.op(id));
    if (features % chunks_[graph_.op(id).chunk.index].places == 0) seeds.push_back(id);
    else if (!by->weights.empty()) uneven_.emplace(id, features);
  }
  return seeds;
}

bool AskedCuts::matches(const ir::CutSeed& seed, OpId linear) const {
  return std::any_of(seed.weights.begin(), seed.weights.end(),
                     [&](const std::string& glob) { return glob_covers(glob, weight_of(linear).names); });
}

// A glob may match in one region of its directive and not in another.
Status AskedCuts::check_globs(const std::vector<OpId>& products) {
  std::vector<const ir::CutSeed*> directives;
  for (const ir::ChunkProperties& row : distribution_.chunks)
    for (const ir::CutSeed& seed : row.seeds)
      if (std::none_of(directives.begin(), directives.end(), [&](const ir::CutSeed* d) { return *d == seed; }))
        directives.push_back(&seed);
  for (const ir::CutSeed* directive : directives) {
    std::vector<std::string> names;
    for (const OpId id : products) {
      const auto& seeds = asked(graph_.op(id).chunk);
      if (directive->dim == CutDim::kColumn && std::count(seeds.begin(), seeds.end(), *directive) > 0)
        names.push_back(weight_of(id).names[0]);
    }
    for (const Table& table : candidates_)
      if (directive->dim == CutDim::kVocabulary &&
          std::count(asked(table.chunk).begin(), asked(table.chunk).end(), *directive) > 0)
        names.push_back(parameter(table.parameter).names[0]);
    std::vector<diag::GlobUse> uses;
    for (const std::string& glob : directive->weights)
      uses.push_back({glob, directive->span, std::any_of(names.begin(), names.end(), [&](const std::string& name) {
                        return glob_covers(glob, name);
                      })});
    PIPER_RETURN_IF_ERROR(
        diag::tell_unmatched_globs(uses, "P0258", diags_, [&](diag::InFlight& message, const std::string& glob) {
          message << "no " << (directive->dim == CutDim::kColumn ? "weight of a product" : "table") << " matches '"
                  << glob << "'";
          std::string list;
          for (size_t i = 0; i < std::min<size_t>(names.size(), 12); ++i)
            list += (i > 0 ? ", '" : "'") + names[i] + "'";
          message.note(names.empty() ? "the regions have none that nothing else reads"
                                     : "these can be named: " + list + (names.size() > 12 ? ", ..." : ""));
        }));
  }
  return Status();
}

// Weights that could have been cut and are not, by what stops them. Those that are named are errors.
void AskedCuts::tell_whole(const FollowedCuts& found) const {
  std::map<std::string, std::vector<std::string>> whole;
  std::vector<std::pair<std::string, diag::Span>> order;
  std::set<OpId> told;
  std::set<uint32_t> cut;  // by their output features, or by the input features of what others lead to
  for (const FollowedCuts::Weight& weight : found.weights) cut.insert(weight.parameter.index);
  for (const Obstacle& obstacle : found.obstacles)
    for (const OpId seed : obstacle.seeds) {
      const auto weight = weights_.find(seed);
      if (weight == weights_.end() || cut.count(weight->second.index) > 0 || !told.insert(seed).second) continue;
      const std::string why =
          "'" + std::string(ir::op_name(graph_.op(obstacle.op).kind)) + "' " + obstacle.why +
          (obstacle.uneven ? ", which " + std::to_string(chunks_[graph_.op(seed).chunk.index].places) +
                                 " devices cannot share equally"
                           : "");
      if (whole[why].empty()) order.emplace_back(why, asked(graph_.op(seed).chunk)[0].span);
      whole[why].push_back(weight_of(seed).names[0]);
    }
  for (const auto& [why, span] : order) {
    std::string list;
    for (const std::string& name : whole[why]) list += (list.empty() ? "" : ", ") + name;
    diags_.remark("whole on every device: " + list + ": " + why, span);
  }
}

// What is named is cut, or an error.
Status AskedCuts::check_named(const FollowedCuts& found) {
  for (const auto& [id, features] : uneven_) return uneven(id, std::to_string(features) + " output features");
  std::map<uint32_t, bool> is_cut;
  for (const FollowedCuts::Weight& weight : found.weights) is_cut[weight.parameter.index] = true;
  for (const auto& [id, by] : named_) {
    if (is_cut.count(weights_.at(id).index) > 0) continue;
    for (const Obstacle& obstacle : found.obstacles) {
      if (std::count(obstacle.seeds.begin(), obstacle.seeds.end(), id) == 0) continue;
      const std::string name = described(obstacle.op);
      if (obstacle.uneven) return uneven(id, "features that " + name + " takes apart, and it " + obstacle.why);
      auto error = diags_.error("P0256", by->span);
      error << "'" << weight_of(id).names[0] << "' cannot be divided along its output features";
      error.note(name + " " + obstacle.why);
      error.help("leave it out of 'weights'");
      return error;
    }
  }
  return Status();
}

Status AskedCuts::check_named_tables() {
  for (const Stopped& stopped : stopped_) {
    const ir::CutSeed* const by = asks_for(stopped.table);
    const std::string& name = parameter(stopped.table.parameter).names[0];
    const std::string why = described(stopped.at.op) + " " + stopped.at.why;
    if (by->weights.empty()) {
      diags_.remark("'" + name + "' stays whole, and so do its logits: " + why, by->span);
      continue;
    }
    auto error = diags_.error("P0256", by->span);
    error << "'" << name << "' cannot be divided by rows";
    error.note(why);
    error.help("leave it out of 'weights'");
    return error;
  }
  return Status();
}

std::string AskedCuts::described(OpId id) const {
  const ir::Op& op = graph_.op(id);
  const std::string scope = graph_.scope(op.scope);
  return "'" + std::string(ir::op_name(op.kind)) + "'" + (scope.empty() ? "" : " of " + scope);
}

Status AskedCuts::uneven(OpId id, const std::string& what) {
  const int64_t places = chunks_[graph_.op(id).chunk.index].places;
  auto error = diags_.error("P0257", named_.at(id)->span);
  error << "'" << weight_of(id).names[0] << "' has " << what << ", which " << places << " devices cannot share equally";
  return error;
}

// The devices of a group then repeat the same products.
void AskedCuts::warn_of_no_effect(const FollowedCuts& found) const {
  std::vector<std::pair<const ir::CutSeed*, bool>> directives;  // and whether it cuts something
  for (size_t c = 0; c < chunks_.size(); ++c)
    for (const ir::CutSeed& seed : asked(ir::ChunkId(c))) {
      if (seed.dim != CutDim::kColumn) continue;
      auto known = std::find_if(directives.begin(), directives.end(),
                                [&](const auto& directive) { return *directive.first == seed; });
      if (known == directives.end()) known = directives.insert(known, {&seed, false});
      known->second = known->second || std::any_of(found.weights.begin(), found.weights.end(), [&](const auto& weight) {
                        return weight.chunk == ir::ChunkId(c) && !weight.table;
                      });
    }
  for (const auto& [seed, cuts] : directives) {
    if (cuts) continue;
    auto warning = diags_.warning("P0273", seed->span);
    warning << "'dim: column' divides no weight here";
    const auto& parameters = graph_.parameters();
    if (std::any_of(parameters.begin(), parameters.end(), [](const ir::Parameter& p) { return p.matrix; }))
      warning.note("the optimizer updates the matrices of hidden layers as a whole, so they stay whole");
  }
}

void AskedCuts::tell(const FollowedCuts& found) const {
  tell_whole(found);
  warn_of_no_effect(found);
  for (size_t c = 0; c < chunks_.size(); ++c) {
    if (chunks_[c].cut < 0) continue;
    std::string names[3];
    for (const FollowedCuts::Weight& weight : found.weights)
      if (weight.chunk == ir::ChunkId(c)) {
        std::string& list = names[weight.table ? 2 : weight.sums ? 1 : 0];
        list += (list.empty() ? "" : ", ") + parameter(weight.parameter).names[0] + " " +
                shape_text(graph_.type(weight.parameter).shape, weight.along, chunks_[c].places);
      }
    const std::string& name = chunked_.chunks[c].name;
    const ir::CutSeed& seed = asked(ir::ChunkId(c))[0];
    const std::string over = " over " + std::to_string(chunks_[c].places) + " devices";
    static constexpr const char* kBy[] = {"by output features are ", "by input features ", "by rows "};
    std::string all;
    for (size_t by = 0; by < 3; ++by)
      if (!names[by].empty()) all += (all.empty() ? " " : "; ") + (kBy[by] + names[by]);
    diags_.remark(name + (all.empty() ? ": no weight is cut" + over : ": cut" + over + all), seed.span);
  }
}

}  // namespace piper::tensors
