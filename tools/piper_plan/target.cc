#include "tools/piper_plan/target.h"

#include <cstdio>

#include "compiler/diag/diagnostics.h"
#include "compiler/machine/load_machine.h"

namespace piper::tools {

Result<TargetMachine> read_target(const std::string& machine, const std::string& kernel_times,
                                  const plan::Bundle& bundle) {
  diag::Diagnostics diags;
  auto read = machine::load_machine(machine, diags, bundle.manifest.target.device);
  std::fputs(diags.render_text(false).c_str(), stderr);
  if (!read.ok()) return Status::reported(read.error().code);
  TargetMachine target{*std::move(read), {}};
  if (!kernel_times.empty()) {
    PIPER_ASSIGN(target.kernel_times, plan::read_kernel_times(kernel_times));
  }
  return target;
}

}  // namespace piper::tools
