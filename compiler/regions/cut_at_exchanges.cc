// Pieces of a chunk are numbered by levels: even ones compute, a conversion between them has an odd one. The level of
// an op follows from the number of conversions on the longest way to it; ops of one unit share the largest of theirs.
#include "compiler/regions/cut_at_exchanges.h"

#include <algorithm>
#include <set>
#include <string>

#include "compiler/analysis/op_roles.h"
#include "compiler/ir/op_traits.h"
#include "schemas/base/check.h"

namespace piper::regions {
namespace {

using ir::OpId;
using ir::Phase;
using ir::ValueId;

class Cutter {
 public:
  Cutter(ir::ChunkedGraph& chunked, const ExchangeMarks& marks)
      : chunked_(chunked), graph_(chunked.graph), marks_(marks) {}

  std::vector<ir::ChunkId> run() {
    find_levels();
    place_copies();
    number_pieces();
    graph_.sort_ops();
    return std::move(parents_);
  }

 private:
  bool is_cut(ir::ChunkId chunk) const { return chunk.valid() && marks_.cut[chunk.index]; }
  bool is_exchange(size_t i) const {
    const ir::Op& op = graph_.op(OpId(i));
    return ir::is_conversion(op.kind) || (op.kind == ir::OpKind::kOwnPart && marks_.way.count(op.results[0].index) > 0);
  }
  int32_t unit_of(size_t i) const {
    const ir::Op& op = graph_.op(OpId(i));
    const auto found = op.results.empty() ? marks_.unit.end() : marks_.unit.find(op.results[0].index);
    return found == marks_.unit.end() ? -1 : found->second;
  }

  void find_levels() {
    const std::vector<analysis::OpRole> roles = analysis::op_roles(graph_);
    levels_.assign(graph_.num_ops(), {});
    copied_.assign(graph_.num_ops(), false);
    std::vector<int32_t> level(graph_.num_ops());
    std::vector<bool> of_input(graph_.num_values(), false);
    for (const ir::Input& input : graph_.inputs()) of_input[input.value.index] = true;
    for (size_t i = 0; i < graph_.num_ops(); ++i) {
      const ir::Op& op = graph_.op(OpId(i));
      const bool reads_input = std::any_of(op.operands.begin(), op.operands.end(),
                                           [&](ValueId v) { return v.valid() && of_input[v.index]; });
      for (ValueId result : op.results) of_input[result.index] = reads_input;
      const bool counts = op.phase == Phase::kCount || op.phase == Phase::kCountFinish;
      copied_[i] = is_cut(op.chunk) && unit_of(i) < 0 && !is_exchange(i) &&
                   (counts || (roles[i] == analysis::OpRole::kCopied && !reads_input));
    }
    std::map<int32_t, int32_t> unit_level;
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < graph_.num_ops(); ++i) {
        const ir::Op& op = graph_.op(OpId(i));
        if (!is_cut(op.chunk) || copied_[i]) continue;
        level[i] = is_exchange(i) ? 1 : 0;
        for (ValueId operand : op.operands) {
          if (!operand.valid() || graph_.value(operand).kind != ir::ValueKind::kOpResult) continue;
          const size_t producer = graph_.value(operand).producer.index;
          if (graph_.op(OpId(producer)).chunk != op.chunk || copied_[producer]) continue;
          level[i] = std::max(level[i], level[producer] + (is_exchange(i) || is_exchange(producer) ? 1 : 0));
        }
        if (is_exchange(i)) level[i] |= 1;  // right after another one
        if (const int32_t unit = unit_of(i); unit >= 0) {
          int32_t& all = unit_level[unit];
          changed = changed || level[i] > all;
          all = level[i] = std::max(all, level[i]);
        }
      }
    }
    const auto readers = graph_.uses();
    defer_weights(readers, level);
    for (size_t i = 0; i < graph_.num_ops(); ++i)
      if (is_cut(graph_.op(OpId(i)).chunk) && !copied_[i]) levels_[i] = {level[i]};
    for (size_t i = graph_.num_ops(); i-- > 0;) {
      if (!copied_[i]) continue;
      for (ValueId result : graph_.op(OpId(i)).results)
        for (OpId reader : readers[result.index]) {
          if (graph_.op(reader).chunk != graph_.op(OpId(i)).chunk) continue;
          for (int32_t l : levels_[reader.index]) levels_[i].insert(l % 2 == 0 ? l : l - 1);
        }
      if (levels_[i].empty()) levels_[i].insert(0);
    }
  }

  // What only weights lead to is converted right before it is read: its gradient is then ready with those beside it.
  void defer_weights(const ir::Uses& readers, std::vector<int32_t>& level) const {
    for (size_t i = 0; i < graph_.num_ops(); ++i) {
      const ir::Op& op = graph_.op(OpId(i));
      if (!is_cut(op.chunk) || !is_exchange(i) || level[i] != 1) continue;
      const bool of_weights = std::all_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
        return graph_.value(v).kind == ir::ValueKind::kOpResult && copied_[graph_.value(v).producer.index];
      });
      if (!of_weights) continue;
      int32_t first = -1;
      for (const ValueId result : op.results)
        for (const OpId reader : readers[result.index])
          if (graph_.op(reader).chunk == op.chunk && (first < 0 || level[reader.index] < first))
            first = level[reader.index];
      if (first > 1) level[i] = first % 2 == 0 ? first - 1 : first - 2;  // a conversion has an odd level
    }
  }

  // A copied op that several pieces read is made in each of them; what reads it there reads the copy.
  void place_copies() {
    const size_t before = graph_.num_ops();
    std::map<std::pair<uint32_t, int32_t>, ValueId> copies;  // (value, level)
    const auto redirect = [&](ir::Op& op, int32_t level) {
      for (ValueId& operand : op.operands) {
        const auto found =
            operand.valid() ? copies.find({operand.index, level % 2 == 0 ? level : level - 1}) : copies.end();
        if (found != copies.end()) operand = found->second;
      }
    };
    for (size_t i = 0; i < before; ++i) {
      const ir::ChunkId chunk = graph_.op(OpId(i)).chunk;
      if (levels_[i].empty()) continue;
      const std::set<int32_t> levels = levels_[i];
      for (auto level = std::next(levels.begin()); level != levels.end(); ++level) {
        const ir::Op op = graph_.op(OpId(i));
        std::vector<ir::TensorType> types;
        for (ValueId result : op.results) types.push_back(graph_.type(result));
        const OpId copy =
            graph_.append(op.kind, op.attrs, op.operands, std::move(types), op.scope,
                          graph_.provenance().derived(marks_.pass, {op.prov}), graph_.value(op.results[0]).name);
        graph_.op(copy).phase = op.phase;
        graph_.op(copy).chunk = chunk;
        redirect(graph_.op(copy), *level);
        levels_.push_back({*level});
        for (size_t r = 0; r < op.results.size(); ++r)
          copies[{op.results[r].index, *level}] = graph_.op(copy).results[r];
      }
      redirect(graph_.op(OpId(i)), *levels.begin());
      levels_[i] = {*levels.begin()};
    }
  }

  // Pieces in the order of their levels; an exchange is a piece alone.
  void number_pieces() {
    using Piece = std::pair<int32_t, uint32_t>;                         // level, result of its conversion
    std::vector<std::map<Piece, bool>> pieces(chunked_.chunks.size());  // -> it holds ops of a unit
    const auto piece_of = [&](size_t i) {
      return Piece{*levels_[i].begin(), is_exchange(i) ? graph_.op(OpId(i)).results[0].index : 0};
    };
    for (size_t i = 0; i < graph_.num_ops(); ++i)
      if (!levels_[i].empty()) pieces[graph_.op(OpId(i)).chunk.index][piece_of(i)] |= unit_of(i) >= 0;
    std::vector<ir::Chunk> chunks;
    std::vector<std::map<Piece, ir::ChunkId>> id(chunked_.chunks.size());
    std::vector<ir::ChunkId> plain(chunked_.chunks.size());
    std::set<std::string> names;
    for (const ir::Chunk& chunk : chunked_.chunks) names.insert(chunk.name);
    for (size_t c = 0; c < chunked_.chunks.size(); ++c) {
      if (pieces[c].empty()) {
        plain[c] = ir::ChunkId(chunks.size());
        chunks.push_back(of_region(c));
        parents_.push_back(ir::ChunkId(c));
      }
      // A conversion of an earlier pass has had the chunk to itself, and keeps its name.
      const bool was_one = chunked_.chunks[c].exchange;
      bool first = !was_one;
      for (const auto& [piece, experts] : pieces[c]) {
        ir::Chunk chunk = of_region(c);
        if (!marks_.shard.empty()) chunk.shard = marks_.shard[c];
        chunk.exchange = piece.first % 2 == 1;
        const auto way = marks_.way.find(piece.second);
        const bool made_before = chunk.exchange && way == marks_.way.end();
        PIPER_CHECK(!made_before || was_one, chunk.name, " has a conversion that is called nothing");
        if (!made_before && (!first || chunk.exchange || experts)) {
          chunk.name += std::string(".") + (chunk.exchange ? way->second : experts ? "experts" : "rest");
          const std::string base = chunk.name;
          for (int32_t repeat = 2; !names.insert(chunk.name).second; ++repeat)
            chunk.name = base + "." + std::to_string(repeat);
        }
        first = false;
        id[c][piece] = ir::ChunkId(chunks.size());
        chunks.push_back(std::move(chunk));
        parents_.push_back(ir::ChunkId(c));
      }
    }
    for (size_t i = 0; i < graph_.num_ops(); ++i) {
      ir::Op& op = graph_.op(OpId(i));
      if (!op.chunk.valid()) continue;
      op.chunk = levels_[i].empty() ? plain[op.chunk.index] : id[op.chunk.index].at(piece_of(i));
    }
    chunked_.chunks = std::move(chunks);
  }

  // Pieces of one chunk stay one region.
  ir::Chunk of_region(size_t c) const {
    ir::Chunk chunk = chunked_.chunks[c];
    if (chunk.region < 0) chunk.region = static_cast<int32_t>(c);
    return chunk;
  }

  ir::ChunkedGraph& chunked_;
  ir::Graph& graph_;
  const ExchangeMarks& marks_;
  std::vector<bool> copied_;               // [op]
  std::vector<std::set<int32_t>> levels_;  // [op] empty where its chunk is not cut
  std::vector<ir::ChunkId> parents_;
};

}  // namespace

std::vector<ir::ChunkId> cut_at_exchanges(ir::ChunkedGraph& chunked, const ExchangeMarks& marks) {
  return Cutter(chunked, marks).run();
}

}  // namespace piper::regions
