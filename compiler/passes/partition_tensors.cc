#include "compiler/passes/partition_tensors.h"

#include <algorithm>
#include <map>
#include <string>

#include "compiler/diag/unmatched_globs.h"
#include "compiler/regions/cut_at_exchanges.h"
#include "compiler/regions/refine_variants.h"
#include "compiler/tensors/carry_shares.h"
#include "compiler/tensors/convert_rest.h"
#include "compiler/tensors/cut_tables.h"
#include "compiler/tensors/find_tables.h"
#include "compiler/tensors/follow_cuts.h"
#include "compiler/tensors/products.h"
#include "compiler/tensors/rest.h"
#include "schemas/base/check.h"
#include "schemas/base/glob.h"

namespace piper::passes {
namespace {

using ir::CutDim;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;
using tensors::FollowedCuts;

class TensorPartitioner {
 public:
  TensorPartitioner(ir::ChunkedGraph& chunked, const ir::Distribution& distribution, diag::Diagnostics& diags)
      : chunked_(chunked), graph_(chunked.graph), distribution_(distribution), diags_(diags) {}

  Result<std::vector<ir::ChunkId>> run() {
    find_cuts();
    find_tables();
    PIPER_ASSIGN(const std::vector<OpId> seeds, find_seeds());
    FollowedCuts found = follow(seeds);
    PIPER_RETURN_IF_ERROR(check_named(found));
    PIPER_RETURN_IF_ERROR(check_named_tables());
    tensors::carry_shares(graph_, chunks_, found);
    for (const ir::Cut& cut : distribution_.cuts)
      provs_.push_back(graph_.provenance().directive({"shard", diags_.place(cut.span)}));
    tensors::cut_tables(graph_, tables_, chunks_, [this](const ir::Op& op) { return builder(op); }, found);
    tell(found);
    const tensors::Rest rest = tensors::find_rest(graph_, of_sequences(), found);
    PIPER_RETURN_IF_ERROR(check_sequences(rest));
    tell(rest);
    cut_values(found);
    cut_values(rest, found);
    enter(found, rest);
    add_up(found, rest);
    convert(rest);
    graph_.sort_ops();
    marks_.pass = "partition_tensors";
    marks_.cut.resize(chunked_.chunks.size(), false);
    return regions::cut_at_exchanges(chunked_, marks_);
  }

 private:
  const std::vector<ir::CutSeed>& asked(ir::ChunkId chunk) const { return distribution_.chunks[chunk.index].seeds; }
  const ir::Parameter& parameter(ValueId v) const { return graph_.parameters()[graph_.value(v).payload]; }
  const ir::Parameter& weight_of(OpId linear) const { return parameter(weights_.at(linear)); }

  // ---------------------------------------------------------------- what is asked for
  void find_cuts() {
    for (size_t c = 0; c < distribution_.chunks.size(); ++c) {
      chunks_.emplace_back();
      if (const auto& seeds = asked(ir::ChunkId(c)); !seeds.empty())
        chunks_.back() = {seeds[0].cut, distribution_.cuts[static_cast<size_t>(seeds[0].cut)].places()};
    }
  }

  // The directive that asks for rows of a table, of those that do in a chunk; null: none.
  const ir::CutSeed* asks_for(const tensors::Table& table) const {
    for (const ir::CutSeed& seed : asked(table.chunk))
      if (seed.dim == CutDim::kVocabulary &&
          (seed.weights.empty() || std::any_of(seed.weights.begin(), seed.weights.end(), [&](const std::string& glob) {
             return glob_covers(glob, parameter(table.parameter).names);
           })))
        return &seed;
    return nullptr;
  }
  void find_tables() {
    std::vector<bool> vocabulary;
    for (size_t c = 0; c < chunks_.size(); ++c)
      vocabulary.push_back(std::any_of(asked(ir::ChunkId(c)).begin(), asked(ir::ChunkId(c)).end(),
                                       [](const ir::CutSeed& seed) { return seed.dim == CutDim::kVocabulary; }));
    candidates_ = tensors::find_tables(graph_, chunks_, vocabulary);
    for (const tensors::Table& table : candidates_)
      if (asks_for(table) != nullptr) tables_.push_back(table);
  }

  // A table is cut for all of its readers, or for none.
  FollowedCuts follow(const std::vector<OpId>& seeds) {
    for (;;) {
      std::vector<OpId> logits;
      for (const tensors::Table& table : tables_)
        logits.insert(logits.end(), table.products.begin(), table.products.end());
      FollowedCuts found = tensors::follow_cuts(graph_, chunks_, seeds, logits);
      const size_t before = tables_.size();
      for (const tensors::Obstacle& obstacle : found.obstacles)
        std::erase_if(tables_, [&](const tensors::Table& table) {
          const bool stops = std::any_of(table.products.begin(), table.products.end(), [&](OpId product) {
            return std::count(obstacle.seeds.begin(), obstacle.seeds.end(), product) > 0;
          });
          if (stops) stopped_.push_back({table, obstacle});
          return stops;
        });
      if (tables_.size() == before) return found;
    }
  }

  Result<std::vector<OpId>> find_seeds() {
    const ir::Uses uses = graph_.uses();
    std::vector<OpId> logits;  // products of tables
    for (const tensors::Table& table : tables_)
      logits.insert(logits.end(), table.products.begin(), table.products.end());
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
      const int64_t features = tensors::features_of(graph_, graph_.op(id));
      if (features % chunks_[graph_.op(id).chunk.index].places == 0) seeds.push_back(id);
      else if (!by->weights.empty()) uneven_.emplace(id, features);
    }
    return seeds;
  }
  bool matches(const ir::CutSeed& seed, OpId linear) const {
    return std::any_of(seed.weights.begin(), seed.weights.end(),
                       [&](const std::string& glob) { return glob_covers(glob, weight_of(linear).names); });
  }

  // A glob may match in one region of its directive and not in another.
  Status check_globs(const std::vector<OpId>& products) {
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
      for (const tensors::Table& table : candidates_)
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

  // [chunk] those of which the sequence is cut.
  std::vector<tensors::ChunkCut> of_sequences() const {
    std::vector<tensors::ChunkCut> cuts = chunks_;
    for (size_t c = 0; c < cuts.size(); ++c)
      if (sequence_of(c) == nullptr) cuts[c] = {};
    return cuts;
  }
  const ir::CutSeed* sequence_of(size_t c) const {
    for (const ir::CutSeed& seed : asked(ir::ChunkId(c)))
      if (seed.dim == CutDim::kSequence) return &seed;
    return nullptr;
  }

  // Error P0260: a directive that cuts no sequence.
  Status check_sequences(const tensors::Rest& rest) {
    std::vector<std::pair<const ir::CutSeed*, bool>> directives;  // and whether something is in parts by it
    const auto of = [&](const ir::CutSeed* seed) -> bool& {
      for (auto& [known, any] : directives)
        if (*known == *seed) return any;
      return directives.emplace_back(seed, false).second;
    };
    for (size_t c = 0; c < chunks_.size(); ++c)
      if (const ir::CutSeed* seed = sequence_of(c)) (void)of(seed);
    for (size_t i = 0; i < graph_.num_ops() && !directives.empty(); ++i)
      for (const ValueId result : graph_.op(OpId(i)).results)
        if (const ir::CutSeed* seed = sequence_of(graph_.op(OpId(i)).chunk.index);
            seed != nullptr && rest.part[result.index].axis >= 0)
          of(seed) = true;
    for (const auto& [seed, any] : directives) {
      if (any) continue;
      auto error = diags_.error("P0260", seed->span);
      error << "no values of these regions can be cut along a sequence";
      if (!rest.uneven.empty())
        error.note("'" + std::string(ir::op_name(graph_.op(rest.uneven[0].first).kind)) + "' has a sequence of " +
                   std::to_string(rest.uneven[0].second) + ", which " +
                   std::to_string(distribution_.cuts[static_cast<size_t>(seed->cut)].places()) +
                   " devices cannot share equally");
      else error.note("a sequence is axis 1 of the model's inputs, of ids [B, S] or of numbers [B, S, ..]");
      return error;
    }
    return Status();
  }
  void tell(const tensors::Rest& rest) {
    std::map<uint32_t, bool> told;
    for (const tensors::Rest::Read& read : rest.whole) {
      const ir::Op& op = graph_.op(read.op);
      const ValueId v = op.operands[read.operand];
      const ir::CutSeed* seed = sequence_of(graph_.op(graph_.value(v).producer).chunk.index);
      if (seed == nullptr || std::exchange(told[v.index], true)) continue;
      const std::string scope = graph_.scope(op.scope);
      diags_.remark("'" + graph_.value(v).name + "' is gathered, " + std::to_string(graph_.type(v).bytes()) +
                        " bytes a microbatch: '" + std::string(ir::op_name(op.kind)) + "'" +
                        (scope.empty() ? "" : " of " + scope) + " needs the whole sequence",
                    seed->span);
    }
  }

  // What is named is cut, or an error.
  Status check_named(const FollowedCuts& found) {
    for (const auto& [id, features] : uneven_) return uneven(id, std::to_string(features) + " output features");
    std::map<uint32_t, bool> is_cut;
    for (const FollowedCuts::Weight& weight : found.weights) is_cut[weight.parameter.index] = true;
    for (const auto& [id, by] : named_) {
      if (is_cut.count(weights_.at(id).index) > 0) continue;
      for (const tensors::Obstacle& obstacle : found.obstacles) {
        if (std::count(obstacle.seeds.begin(), obstacle.seeds.end(), id) == 0) continue;
        const std::string name = described(obstacle.op);
        if (obstacle.uneven) return uneven(id, "features that " + name + " takes apart, and it " + obstacle.why);
        auto error = diags_.error("P0256", by->span);
        error << "'" << weight_of(id).names[0] << "' cannot be cut by its output features";
        error.note(name + " " + obstacle.why);
        error.help("leave it out of 'weights'");
        return error;
      }
    }
    return Status();
  }
  Status check_named_tables() {
    for (const Stopped& stopped : stopped_) {
      const ir::CutSeed* const by = asks_for(stopped.table);
      const std::string& name = parameter(stopped.table.parameter).names[0];
      const std::string why = described(stopped.at.op) + " " + stopped.at.why;
      if (by->weights.empty()) {
        diags_.remark("'" + name + "' stays whole, and so do its logits: " + why, by->span);
        continue;
      }
      auto error = diags_.error("P0256", by->span);
      error << "'" << name << "' cannot be cut by its rows";
      error.note(why);
      error.help("leave it out of 'weights'");
      return error;
    }
    return Status();
  }
  std::string described(OpId id) const {
    const ir::Op& op = graph_.op(id);
    const std::string scope = graph_.scope(op.scope);
    return "'" + std::string(ir::op_name(op.kind)) + "'" + (scope.empty() ? "" : " of " + scope);
  }
  Status uneven(OpId id, const std::string& what) {
    const int64_t places = chunks_[graph_.op(id).chunk.index].places;
    auto error = diags_.error("P0257", named_.at(id)->span);
    error << "'" << weight_of(id).names[0] << "' has " << what << ", which " << places
          << " devices cannot share equally";
    return error;
  }

  void tell(const FollowedCuts& found) {
    for (size_t c = 0; c < chunks_.size(); ++c) {
      if (chunks_[c].cut < 0) continue;
      std::string names[3];
      for (const FollowedCuts::Weight& weight : found.weights)
        if (weight.chunk == ir::ChunkId(c)) {
          std::string& list = names[weight.table ? 2 : weight.sums ? 1 : 0];
          list += (list.empty() ? "" : ", ") + parameter(weight.parameter).names[0];
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

  // ---------------------------------------------------------------- act
  void cut_values(const FollowedCuts& found) {
    for (const FollowedCuts::Weight& weight : found.weights) {
      const tensors::ChunkCut& cut = chunks_[weight.chunk.index];
      int64_t& extent = graph_.value(weight.parameter).type.shape[static_cast<size_t>(weight.along.axis)];
      graph_.parameters()[graph_.value(weight.parameter).payload].cut =
          ir::ParameterCut{cut.cut, weight.along.axis, static_cast<int32_t>(cut.places), weight.along.segments,
                           extent % cut.places != 0 ? extent : 0};
      extent = tensors::part_extent(extent, cut.places);
      cut_chunk(weight.chunk);
    }
    for (const auto& [v, chunk] : found.shared)
      graph_.parameters()[graph_.value(v).payload].share = chunks_[chunk.index].cut;
    for (const tensors::Table& table : tables_)
      for (const std::vector<OpId>* const readers : {&table.look_ups, &table.products})
        for (const OpId reader : *readers) cut_chunk(graph_.op(reader).chunk);
    for (const OpId loss : found.losses) cut_chunk(graph_.op(loss).chunk);
    cut_types([&](ValueId v) { return found.part[v.index].axis; });
  }
  void cut_values(const tensors::Rest& rest, const FollowedCuts& found) {
    for (const auto& [v, chunk] : rest.shared)
      graph_.parameters()[graph_.value(v).payload].share = chunks_[chunk.index].cut;
    cut_types([&](ValueId v) { return found.share[v.index] ? -1 : rest.part[v.index].axis; });
  }
  template <class AxisOf>
  void cut_types(const AxisOf& axis_of) {
    for (size_t i = 0; i < graph_.num_ops(); ++i) {
      ir::Op& op = graph_.op(OpId(i));
      for (const ValueId result : op.results) {
        const int32_t axis = axis_of(result);
        if (axis < 0) continue;
        ir::TensorType& type = graph_.value(result).type;
        const int64_t places = chunks_[op.chunk.index].places;
        type.shape[static_cast<size_t>(axis)] = tensors::part_extent(type.shape[static_cast<size_t>(axis)], places);
        if (auto* reshape = std::get_if<ir::ReshapeAttrs>(&op.attrs)) reshape->shape = type.shape;
        if (auto* expand = std::get_if<ir::ExpandAttrs>(&op.attrs)) expand->shape = type.shape;
        // Whole segments are taken, each of which is a part here.
        if (auto* slice = std::get_if<ir::SliceAttrs>(&op.attrs); slice != nullptr && slice->dim == axis) {
          slice->start /= places;
          slice->end /= places;
        }
      }
    }
  }

  ir::GraphBuilder builder(const ir::Op& op) {
    const ir::ProvId by = provs_[static_cast<size_t>(chunks_[op.chunk.index].cut)];
    ir::GraphBuilder b(graph_, op.scope, graph_.provenance().derived("partition_tensors", {op.prov, by}));
    b.set_chunk(op.chunk);
    b.set_phase(op.phase);
    return b;
  }

  // A value enters once for all readers of a chunk. A part of a sequence is gathered instead.
  void enter(const FollowedCuts& found, const tensors::Rest& rest) {
    std::vector<std::pair<OpId, uint32_t>> reads = found.entered;
    std::erase_if(reads, [&](const auto& read) {
      return std::any_of(rest.inside.begin(), rest.inside.end(), [&](const tensors::Rest::Read& inside) {
        return inside.op == read.first && inside.operand == read.second;
      });
    });
    for (const tensors::Rest::Read& read : rest.entered) reads.emplace_back(read.op, read.operand);
    std::map<std::pair<uint32_t, uint32_t>, ValueId> entered;  // (value, chunk)
    for (const auto& [id, operand] : reads) {
      const ValueId whole = graph_.op(id).operands[operand];
      ValueId& inside = entered[{whole.index, graph_.op(id).chunk.index}];
      if (!inside.valid()) {
        ir::GraphBuilder b = builder(graph_.op(id));
        // A parameter's gradient is added up where something makes what enters: a conversion has no program.
        const bool made = graph_.value(whole).kind == ir::ValueKind::kOpResult;
        const ValueId enters =
            made ? whole : b.add1(OpKind::kReshape, {whole}, ir::ReshapeAttrs{graph_.type(whole).shape});
        inside = b.add1(OpKind::kEnter, {enters}, ir::NoAttrs{}, graph_.value(whole).name + ".entered");
        PIPER_CHECK(b.status().ok(), "an operand that enters");
        marks_.way[inside.index] = "enter";
      }
      graph_.op(id).operands[operand] = inside;
    }
  }

  // Shares are added up where they are made; a bias, of which each place would add its own, after that.
  void add_up(const FollowedCuts& found, const tensors::Rest& rest) {
    const size_t before = graph_.num_ops();
    std::vector<bool> shares = found.share, scattered(graph_.num_values(), false);
    shares.resize(graph_.num_values(), false);
    for (const ValueId share : rest.summed) shares[share.index] = true;
    for (const ValueId share : rest.scattered) scattered[share.index] = true;
    std::map<uint32_t, ValueId> whole;  // share -> the sum
    for (size_t i = 0; i < before; ++i) {
      const ValueId share = graph_.op(OpId(i)).results.empty() ? ValueId() : graph_.op(OpId(i)).results[0];
      if (!share.valid() || !shares[share.index]) continue;
      ir::GraphBuilder b = builder(graph_.op(OpId(i)));
      const std::string name = graph_.value(share).name;
      const tensors::ChunkCut& cut = chunks_[graph_.op(OpId(i)).chunk.index];
      ValueId sum;
      if (scattered[share.index]) {
        sum = tensors::scatter(b, share, rest.part[share.index], cut, marks_.way);
      } else {
        sum = b.add1(OpKind::kAllReduce, {share}, ir::NoAttrs{}, name + ".sum");
        marks_.way[sum.index] = "sum";
      }
      cut_chunk(graph_.op(OpId(i)).chunk);
      std::vector<ValueId>& operands = graph_.op(OpId(i)).operands;
      if (const ValueId bias = tensors::bias_of(graph_.op(OpId(i))); bias.valid()) {
        operands[2] = ValueId();
        sum = b.add1(OpKind::kAdd, {sum, bias}, ir::NoAttrs{}, name + ".biased");
      }
      PIPER_CHECK(b.status().ok(), "a sum over places");
      whole[share.index] = sum;
    }
    for (size_t i = 0; i < before; ++i)
      if (graph_.op(OpId(i)).kind != OpKind::kAllReduce)
        for (ValueId& operand : graph_.op(OpId(i)).operands)
          if (const auto found_sum = operand.valid() ? whole.find(operand.index) : whole.end();
              found_sum != whole.end())
            operand = found_sum->second;
    for (ir::Graph::Output& output : graph_.outputs)
      if (const auto found_sum = whole.find(output.value.index); found_sum != whole.end())
        output.value = found_sum->second;
    if (const auto found_sum = whole.find(graph_.loss.index); found_sum != whole.end()) graph_.loss = found_sum->second;
  }

  void convert(const tensors::Rest& rest) {
    const auto builder_at = [&](const ir::Op& op) { return builder(op); };
    for (const ir::ChunkId chunk : tensors::convert_rest(chunked_, rest, of_sequences(), builder_at, marks_.way))
      cut_chunk(chunk);
  }

  void cut_chunk(ir::ChunkId chunk) {
    marks_.cut.resize(chunked_.chunks.size(), false);
    marks_.cut[chunk.index] = true;
  }

  ir::ChunkedGraph& chunked_;
  ir::Graph& graph_;
  const ir::Distribution& distribution_;
  diag::Diagnostics& diags_;
  std::vector<tensors::ChunkCut> chunks_;
  std::vector<tensors::Table> candidates_, tables_;  // that can be named; that are cut
  struct Stopped {
    tensors::Table table;
    tensors::Obstacle at;
  };
  std::vector<Stopped> stopped_;              // tables that are asked for and cannot be cut
  std::map<OpId, ValueId> weights_;           // of products in chunks that are cut
  std::map<OpId, const ir::CutSeed*> named_;  // products whose weights a glob matches
  std::map<OpId, int64_t> uneven_;            // of these: output features that the places do not divide
  std::vector<ir::ProvId> provs_;             // [cut]
  regions::ExchangeMarks marks_;
};

}  // namespace

Status partition_tensors(ir::Module& module, diag::Diagnostics& diags) {
  if (module.distribution.cuts.empty()) return Status();
  return regions::refine_variants(module, diags, [&](ir::ChunkedGraph& chunked) {
    return TensorPartitioner(chunked, module.distribution, diags).run();
  });
}

}  // namespace piper::passes
