// Runs graph passes by name, as golden files and piper-opt's command line list them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "compiler/ir/graph.h"

namespace piper::opt {

// Names that run_pass knows, for help texts.
std::vector<std::string> pass_names();
// Parameters: local_batch (default 1), pieces (1), batch (local_batch x pieces), per_microbatch
// ("GLOB|GLOB", none).
Status run_pass(const std::string& name, const std::map<std::string, std::string>& params, ir::Graph& graph,
                diag::Diagnostics& diags);

}  // namespace piper::opt
