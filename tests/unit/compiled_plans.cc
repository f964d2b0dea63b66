#include "tests/unit/compiled_plans.h"

#include <sstream>
#include <stdexcept>

#include "compiler/driver/compile.h"
#include "tests/unit/temp_folder.h"

namespace piper::compiled {

namespace {

Result<plan::Bundle> compiled(const std::string& model, const std::string& strategy, diag::Diagnostics& diags) {
  const TempFolder folder;
  driver::CompileOptions options;
  options.model = std::string(PIPER_TEST_MODELS) + "/" + model;
  options.strategy = folder.write("s.yaml", strategy);
  options.output = folder / "plans";
  options.weights = plan::WeightMode::kNone;
  std::ostringstream out, err;
  const auto done = driver::compile(options, diags, out, err);
  return done.ok() ? plan::read_bundle(options.output) : Result<plan::Bundle>(done.status());
}

}  // namespace

plan::Bundle bundle(const std::string& model, const std::string& strategy) {
  diag::Diagnostics diags;
  auto read = compiled(model, strategy, diags);
  if (!read.ok()) throw std::runtime_error(read.error().message + "\n" + diags.render_text(false));
  return std::move(*read);
}

std::string remarks(const std::string& model, const std::string& strategy) {
  diag::Diagnostics diags;
  const auto read = compiled(model, strategy, diags);
  if (!read.ok()) throw std::runtime_error(read.error().message + "\n" + diags.render_text(false));
  return diags.render_text(true);
}

}  // namespace piper::compiled
