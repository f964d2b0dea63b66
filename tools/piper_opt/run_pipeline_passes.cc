#include "tools/piper_opt/run_pipeline_passes.h"

#include <sstream>

#include "compiler/directives/directive_table.h"
#include "compiler/driver/compilation.h"
#include "compiler/driver/emit_plans.h"
#include "compiler/driver/reproducer.h"
#include "compiler/driver/run_pipeline.h"
#include "compiler/emit/lower_programs.h"
#include "compiler/ir/module_text.h"
#include "compiler/strategy/loader.h"

namespace piper::opt {
namespace {

// What the comments of the file hold. The strategy is the first file, as in the compilation that wrote the module:
// places in the module name it so. Where the comments hold none, they have no line to show.
Status read_inputs(const ModuleRun& run, driver::Compilation& c, diag::Diagnostics& diags) {
  const driver::ReproducerHeader header = driver::read_reproducer_header(run.text);
  if (header.strategy.empty()) {
    diags.add_file("strategy", "");
  } else {
    PIPER_ASSIGN(c.strategy,
                 strategy::parse_strategy(run.name, header.strategy, header.overrides, directives::all_specs(), diags));
  }
  if (header.model.empty()) return Status();
  const std::string path = header.model.front() == '/' ? header.model : run.folder + header.model;
  PIPER_ASSIGN(c.model, frontend::open_model(path, "auto", diags));
  return Status();
}

std::string print_result(const driver::Compilation& c) {
  const std::string text = driver::print_plans(c.emitted.bundle);
  return text.empty() ? ir::print(c.module) : text;
}

Status reads_back(const driver::Compilation& c, const std::string& name) {
  const std::string text = ir::print(c.module);
  PIPER_ASSIGN(ir::ModuleText again, ir::parse_module_text(text, name));
  if (again.lowered) emit::lower_programs(again.module);
  if (ir::print(again.module) != text) return Status::failure("", "the module does not read back to the same text");
  return Status();
}

// Whether a run that begins with this pass lacks what the text of a module leaves out, since lay_out_training made it.
bool wants_training(const std::string& first) {
  bool made = false;
  for (const driver::Pass& pass : driver::pipeline()) {
    if (pass.name == first) return made;
    made = made || pass.name == "lay_out_training";
  }
  return false;
}

}  // namespace

bool is_module(const std::string& text) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find_first_not_of(" \t");
    if (at == std::string::npos || line.compare(at, 2, "//") == 0) continue;
    return line.compare(at, 6, "module") == 0;
  }
  return false;
}

Result<std::string> run_pipeline_passes(const ModuleRun& run, diag::Diagnostics& diags) {
  driver::Compilation c;
  PIPER_RETURN_IF_ERROR(read_inputs(run, c, diags));
  PIPER_ASSIGN(ir::ModuleText read, ir::parse_module_text(run.text, run.name));
  c.module = std::move(read.module);
  PIPER_RETURN_IF_ERROR(ir::verify(c.module));
  if (read.lowered) emit::lower_programs(c.module);
  driver::FrameOptions frame;
  frame.verify_each = true;
  frame.fail_in = run.fail_in;
  if (c.strategy.optimizer && !run.passes.empty() && wants_training(run.passes.front()))
    PIPER_RETURN_IF_ERROR(driver::run_pass(*driver::find_pass("lay_out_training"), c, frame, diags));
  for (const std::string& name : run.passes) {
    const driver::Pass* pass = driver::find_pass(name);
    if (pass == nullptr) return Status::failure("", "no pass '" + name + "'");
    if (c.module.variants.empty() && pass->name != "choose_step" && pass->name != "bind_model")
      return Status::failure("", name + " needs a variant of the model");
    PIPER_RETURN_IF_ERROR(driver::run_pass(*pass, c, frame, diags));
    PIPER_RETURN_IF_ERROR(reads_back(c, run.name));
  }
  return print_result(c);
}

}  // namespace piper::opt
