#include "compiler/driver/run_pipeline.h"

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <ostream>

#include "compiler/ir/module_text.h"
#include "schemas/base/glob.h"
#include "schemas/base/check.h"

namespace piper::driver {

Status run_pass(const Pass& pass, Compilation& c, const FrameOptions& options, diag::Diagnostics& diags) {
  try {
    if (pass.name == options.fail_in) throw InternalError("a failure was asked for");
    PIPER_RETURN_IF_ERROR(pass.run(c, diags));
    if (!options.verify_each) return Status();
    const Status broken = ir::verify(c.module);
    PIPER_CHECK(broken.ok(), "the module breaks rule ", broken.error().code, ": ", broken.error().message);
    return Status();
  } catch (const std::exception& bug) {
    throw PassFailure(pass.name, bug.what());
  }
}

Status run_pipeline(Compilation& c, const FrameOptions& options, diag::Diagnostics& diags, std::ostream& err,
                    const std::function<void(std::string_view phase)>& behind_phase, bool& stopped) {
  stopped = false;
  const std::span<const Pass> passes = pipeline();
  const bool prints = !options.print_ir_after.empty();
  for (size_t i = 0; i < passes.size(); ++i) {
    const Pass& pass = passes[i];
    const bool ends_phase = i + 1 == passes.size() || passes[i + 1].phase != pass.phase;
    const auto begin = std::chrono::steady_clock::now();
    PIPER_RETURN_IF_ERROR(run_pass(pass, c, options, diags));
    if (options.time_passes)
      err << std::left << std::setw(24) << pass.name
          << std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() << " ms\n";
    const auto matches = [&](std::string_view name) { return glob_matches(options.print_ir_after, std::string(name)); };
    if (prints && (matches(pass.name) || (ends_phase && matches(pass.phase)))) {
      err << "// after " << pass.name << "\n";
      err << ir::print(c.module);
    }
    if (ends_phase) behind_phase(pass.phase);
    stopped = pass.name == options.stop_after || (ends_phase && pass.phase == options.stop_after);
    if (stopped) return Status();
  }
  return Status();
}

bool names_a_pass(const std::string& glob) {
  const std::vector<std::string> names = stop_names();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return glob_matches(glob, name); });
}

std::vector<std::string> stop_names() {
  std::vector<std::string> names;
  for (const Pass& pass : pipeline()) {
    if (names.empty() || find_pass(names.back()) == nullptr || find_pass(names.back())->phase != pass.phase)
      names.emplace_back(pass.phase);
    names.emplace_back(pass.name);
  }
  return names;
}

}  // namespace piper::driver
