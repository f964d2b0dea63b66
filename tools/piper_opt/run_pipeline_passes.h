// Runs passes of piperc's pipeline on a module in text form. The file's comments may hold a strategy and name a model
// (compiler/driver/reproducer.h): passes that read directives or bind the model need them.
#pragma once

#include <string>
#include <vector>

#include "compiler/diag/diagnostics.h"
#include "schemas/base/status.h"

namespace piper::opt {

struct ModuleRun {
  std::string name, text;           // of the file; messages name it
  std::string folder;               // a model is looked for there
  std::vector<std::string> passes;  // names of driver/pipeline.h
  std::string fail_in;              // a pass that fails as if it had a bug
};
// Whether the text is a module, not a graph.
bool is_module(const std::string& text);
// The module after the last pass as text; where that is emit_plans, the plans. The module is verified before the
// first pass and after each, and its text is read back to the same bytes.
Result<std::string> run_pipeline_passes(const ModuleRun& run, diag::Diagnostics& diags);

}  // namespace piper::opt
