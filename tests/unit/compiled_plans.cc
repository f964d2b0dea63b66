#include "tests/unit/compiled_plans.h"

#include <sstream>
#include <stdexcept>

#include "compiler/driver/compile.h"
#include "tests/unit/temp_folder.h"

namespace piper::compiled {

plan::Bundle bundle(const std::string& model, const std::string& strategy) {
  const TempFolder folder;
  driver::CompileOptions options;
  options.model = std::string(PIPER_TEST_MODELS) + "/" + model;
  options.strategy = folder.write("s.yaml", strategy);
  options.output = folder / "plans";
  options.weights = plan::WeightMode::kNone;
  diag::Diagnostics diags;
  std::ostringstream out, err;
  auto done = driver::compile(options, diags, out, err);
  auto read = done.ok() ? plan::read_bundle(options.output) : Result<plan::Bundle>(done.status());
  if (!read.ok()) throw std::runtime_error(read.error().message + "\n" + diags.render_text(false));
  return std::move(*read);
}

}  // namespace piper::compiled
