#include "compiler/tensors/asked_sequences.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace piper::tensors {
namespace {

using ir::OpId;
using ir::ValueId;

const ir::CutSeed* sequence_of(const ir::Distribution& distribution, size_t chunk) {
  for (const ir::CutSeed& seed : distribution.chunks[chunk].seeds)
    if (seed.dim == ir::CutDim::kSequence) return &seed;
  return nullptr;
}

void tell(const ir::Graph& graph, const ir::Distribution& distribution, const Rest& rest, diag::Diagnostics& diags) {
  std::map<uint32_t, bool> told;
  for (const Rest::Read& read : rest.whole) {
    const ir::Op& op = graph.op(read.op);
    const ValueId v = op.operands[read.operand];
    const ir::CutSeed* seed = sequence_of(distribution, graph.op(graph.value(v).producer).chunk.index);
    if (seed == nullptr || std::exchange(told[v.index], true)) continue;
    const std::string& scope = graph.scope(op.scope);
    diags.remark("'" + graph.value(v).name + "' is gathered, " + std::to_string(graph.type(v).bytes()) +
                     " bytes a microbatch: '" + std::string(ir::op_name(op.kind)) + "'" +
                     (scope.empty() ? "" : " of " + scope) + " needs the whole sequence",
                 seed->span);
  }
}

// Experts over the places, of which the tokens cannot be divided as the sequence is.
Status stuck(const ir::Graph& graph, const ir::Distribution& distribution, const Rest& rest, diag::Diagnostics& diags) {
  const auto shard_of = [&](OpId id) { return distribution.chunks[graph.op(id).chunk.index].shard; };
  OpId at = rest.stuck.front();
  const int32_t shard = shard_of(at);
  // What reads parts as a whole before that is the reason.
  const auto reason = std::find_if(rest.whole.begin(), rest.whole.end(),
                                   [&](const Rest::Read& read) { return read.op < at && shard_of(read.op) == shard; });
  if (reason != rest.whole.end()) at = reason->op;
  const ir::Op& op = graph.op(at);
  const std::string& scope = graph.scope(op.scope);
  auto error = diags.error("P0259", distribution.expert_groups[static_cast<size_t>(shard)].span);
  error << "the tokens of these experts cannot be divided over devices that share samples";
  error.note("'" + std::string(ir::op_name(op.kind)) + "'" + (scope.empty() ? "" : " of " + scope) +
             " needs the tokens of all of them");
  error.help("divide the experts only over the other axes of the mesh");
  return error;
}

}  // namespace

std::vector<ChunkCut> chunks_of_sequences(const ir::Distribution& distribution, std::vector<ChunkCut> chunks) {
  for (size_t c = 0; c < chunks.size(); ++c)
    if (sequence_of(distribution, c) == nullptr) chunks[c] = {};
  return chunks;
}

Status check_sequences(const ir::Graph& graph, const ir::Distribution& distribution, const Rest& rest,
                       diag::Diagnostics& diags) {
  std::vector<std::pair<const ir::CutSeed*, bool>> directives;  // and whether something is in parts by it
  const auto of = [&](const ir::CutSeed* seed) -> bool& {
    for (auto& [known, any] : directives)
      if (*known == *seed) return any;
    return directives.emplace_back(seed, false).second;
  };
  for (size_t c = 0; c < distribution.chunks.size(); ++c)
    if (const ir::CutSeed* seed = sequence_of(distribution, c)) (void)of(seed);
  for (size_t i = 0; i < graph.num_ops() && !directives.empty(); ++i)
    for (const ValueId result : graph.op(OpId(i)).results)
      if (const ir::CutSeed* seed = sequence_of(distribution, graph.op(OpId(i)).chunk.index);
          seed != nullptr && rest.part[result.index].axis >= 0)
        of(seed) = true;
  for (const auto& [seed, any] : directives) {
    if (any) continue;
    auto error = diags.error("P0260", seed->span);
    error << "no values of these regions can be divided along a sequence";
    if (!rest.uneven.empty())
      error.note("'" + std::string(ir::op_name(graph.op(rest.uneven[0].first).kind)) + "' has a sequence of " +
                 std::to_string(rest.uneven[0].second) + ", which " +
                 std::to_string(distribution.cuts[static_cast<size_t>(seed->cut)].places()) +
                 " devices cannot share equally");
    else if (!rest.mixed.empty())
      error.note("parameter '" + graph.value(rest.mixed[0].first).name + "' is also read by " +
                 graph.provenance().describe(graph.op(rest.mixed[0].second).prov) +
                 ", which needs the whole sequence, so all readers of the parameter have it");
    else error.note("a sequence is axis 1 of the model's inputs, of ids [B, S] or of numbers [B, S, ..]");
    return error;
  }
  if (!rest.stuck.empty()) return stuck(graph, distribution, rest, diags);
  tell(graph, distribution, rest, diags);
  return Status();
}

}  // namespace piper::tensors
