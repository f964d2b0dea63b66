// The table of passes that act on one model graph.
#include "tools/piper_opt/run_passes.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "compiler/autodiff/autodiff.h"
#include "compiler/frontend/experts/recognise_experts.h"
#include "compiler/frontend/fold.h"
#include "compiler/frontend/patterns/rotary.h"
#include "compiler/passes/lay_out_dropout.h"
#include "compiler/passes/normalise_losses.h"
#include "compiler/passes/partition_experts.h"
#include "compiler/analysis/track_batch.h"

namespace piper::opt {
namespace {

struct Params {
  explicit Params(const std::map<std::string, std::string>& given) {
    auto integer = [&](const char* key, int64_t otherwise) {
      auto found = given.find(key);
      return found == given.end() ? otherwise : std::strtoll(found->second.c_str(), nullptr, 10);
    };
    local_batch = integer("local_batch", 1);
    step.pieces = integer("pieces", 1);
    if (auto found = given.find("per_microbatch"); found != given.end()) {
      std::istringstream in(found->second);
      for (std::string glob; std::getline(in, glob, '|');) per_microbatch.push_back(glob);
    }
    devices = static_cast<int32_t>(integer("devices", 2));
    if (auto found = given.find("capacity"); found != given.end())
      bound = ir::RowBound{std::strtod(found->second.c_str(), nullptr),
                           given.count("overflow") > 0 && given.at("overflow") == "error",
                           {}};
    if (auto found = given.find("sharded"); found != given.end()) {
      std::istringstream in(found->second);
      for (std::string chunk; std::getline(in, chunk, '|');)
        sharded.emplace_back(std::strtoul(chunk.c_str(), nullptr, 10));
    }
  }
  int64_t local_batch = 1;
  passes::StepShape step;
  std::vector<std::string> per_microbatch;
  int32_t devices = 2;  // of partition_experts: one group
  std::optional<ir::RowBound> bound;
  std::vector<ir::ChunkId> sharded;  // chunks whose experts are partitioned
};

// The chunks that the ops name, each a region of its own.
Status partition(const Params& p, ir::Graph& graph, diag::Diagnostics& diags) {
  ir::ChunkedGraph chunked;
  size_t count = 0;
  for (size_t i = 0; i < graph.num_ops(); ++i) {
    ir::ChunkId& chunk = graph.op(ir::OpId(i)).chunk;
    if (!chunk.valid()) chunk = ir::ChunkId(0);
    count = std::max<size_t>(count, chunk.index + 1);
  }
  for (size_t c = 0; c < count; ++c) {
    ir::Chunk chunk;
    chunk.tags = {{"CHUNK", static_cast<int32_t>(c)}};
    chunk.name = "chunk" + std::to_string(c);
    chunked.chunks.push_back(std::move(chunk));
  }
  passes::ShardedChunks shard;
  shard.shard.bound = p.bound;
  shard.shard.groups.emplace_back();
  for (int32_t d = 0; d < p.devices; ++d) shard.shard.groups[0].push_back(d);
  for (ir::ChunkId chunk : p.sharded)
    if (chunk.index < count) shard.chunks.push_back(chunk);
  chunked.graph = std::move(graph);
  const Status status = passes::partition_experts(chunked, {shard}, diags).status();
  graph = std::move(chunked.graph);
  return status.ok() ? Status() : Status(status.error());
}

using Pass = Status (*)(const Params&, ir::Graph&, diag::Diagnostics&);
struct NamedPass {
  const char* name;
  Pass run;
};

const NamedPass kPasses[] = {
    {"fold",
     [](const Params&, ir::Graph& graph, diag::Diagnostics&) {
       graph = frontend::fold(graph);
       return Status();
     }},
    {"recognise_rotary",
     [](const Params&, ir::Graph& graph, diag::Diagnostics&) {
       graph = frontend::recognise_rotary(std::move(graph));
       return Status();
     }},
    {"recognise_experts",
     [](const Params&, ir::Graph& graph, diag::Diagnostics&) {
       graph = frontend::recognise_experts(std::move(graph));
       return Status();
     }},
    {"lay_out_dropout",
     [](const Params& p, ir::Graph& graph, diag::Diagnostics& diags) {
       analysis::BatchMap map = analysis::track_batch(graph, p.local_batch);
       return passes::lay_out_dropout(graph, map, p.local_batch, p.step.pieces, diags);
     }},
    {"normalise_losses",
     [](const Params& p, ir::Graph& graph, diag::Diagnostics& diags) {
       analysis::BatchMap map = analysis::track_batch(graph, p.local_batch);
       return passes::normalise_losses(graph, map, p.step, p.per_microbatch, diags);
     }},
    {"partition_experts", partition},
    {"autodiff",
     [](const Params&, ir::Graph& graph, diag::Diagnostics& diags) {
       for (size_t i = 0; i < graph.num_ops(); ++i)
         if (!graph.op(ir::OpId(i)).chunk.valid()) graph.op(ir::OpId(i)).chunk = ir::ChunkId(0);
       auto map = autodiff::differentiate(graph, diags);
       return map.status();
     }},
};

}  // namespace

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const NamedPass& pass : kPasses) names.push_back(pass.name);
  return names;
}

Status run_pass(const std::string& name, const std::map<std::string, std::string>& params, ir::Graph& graph,
                diag::Diagnostics& diags) {
  for (const NamedPass& pass : kPasses)
    if (name == pass.name) return pass.run(Params(params), graph, diags);
  return Status::failure("", "no pass '" + name + "'");
}

}  // namespace piper::opt
