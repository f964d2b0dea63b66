#include "tests/unit/compiled_plans.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "compiler/driver/compile.h"

namespace piper::compiled {

plan::Bundle bundle(const std::string& model, const std::string& strategy) {
  std::string pattern = (std::filesystem::temp_directory_path() / "piper-compiled-XXXXXX").string();
  const std::filesystem::path directory = mkdtemp(pattern.data());
  std::ofstream(directory / "s.yaml") << strategy;
  driver::CompileOptions options;
  options.model = std::string(PIPER_TEST_MODELS) + "/" + model;
  options.strategy = (directory / "s.yaml").string();
  options.output = (directory / "plans").string();
  options.weights = plan::WeightMode::kNone;
  diag::Diagnostics diags;
  std::ostringstream out, err;
  Status done = driver::compile(options, diags, out, err);
  auto read = done.ok() ? plan::read_bundle(options.output) : Result<plan::Bundle>(std::move(done));
  std::filesystem::remove_all(directory);
  if (!read.ok()) throw std::runtime_error(read.error().message + "\n" + diags.render_text(false));
  return std::move(*read);
}

}  // namespace piper::compiled
