// The table of passes that act on one model graph.
#include "tools/piper_opt/run_passes.h"

#include <cstdlib>
#include <sstream>

#include "compiler/autodiff/autodiff.h"
#include "compiler/frontend/fold.h"
#include "compiler/passes/normalise_losses.h"
#include "compiler/passes/track_batch.h"

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
    step.batch = integer("batch", local_batch * step.pieces);
    if (auto found = given.find("per_microbatch"); found != given.end()) {
      std::istringstream in(found->second);
      for (std::string glob; std::getline(in, glob, '|');) per_microbatch.push_back(glob);
    }
  }
  int64_t local_batch = 1;
  passes::StepShape step;
  std::vector<std::string> per_microbatch;
};

using Pass = Status (*)(const Params&, ir::Graph&, diag::Diagnostics&);
struct NamedPass {
  const char* name;
  Pass run;
};

const NamedPass kPasses[] = {
    {"fold", [](const Params&, ir::Graph& graph, diag::Diagnostics&) {
       graph = frontend::fold(graph);
       return Status();
     }},
    {"lay_out_dropout", [](const Params& p, ir::Graph& graph, diag::Diagnostics& diags) {
       passes::BatchMap map = passes::track_batch(graph, p.local_batch);
       return passes::lay_out_dropout(graph, map, p.local_batch, p.step.pieces, diags);
     }},
    {"normalise_losses", [](const Params& p, ir::Graph& graph, diag::Diagnostics& diags) {
       passes::BatchMap map = passes::track_batch(graph, p.local_batch);
       return passes::normalise_losses(graph, map, p.step, p.per_microbatch, diags);
     }},
    {"autodiff", [](const Params&, ir::Graph& graph, diag::Diagnostics& diags) {
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
