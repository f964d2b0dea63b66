#include "tests/unit/compiled_plans.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "compiler/driver/compile.h"
#include "schemas/verify/verify.h"
#include "tests/source_path.h"
#include "tests/unit/temp_folder.h"

namespace piper::compiled {

namespace {

Result<plan::Bundle> compiled(const std::string& model, const std::string& strategy, diag::Diagnostics& diags) {
  const TempFolder folder;
  driver::CompileOptions options;
  options.model = test::source_path("tests/models/" + model);
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

plan::Bundle clipped_replicas_of_places() {
  return bundle("tiny_gpt.onnx", R"(piper: 1
model: {batch: 16}
directives:
  - {op: split, num_microbatches: 2}
  - {op: replicate, filter: {}, devices: [0, 1, 2, 3, 4, 5, 6, 7]}
  - {op: shard, filter: {}, dim: column, over: [[0, 1], [2, 3], [4, 5], [6, 7]]}
optimizer: {adamw: {lr: 0.01}}
clip_grad_norm: 0.5
)");
}

const std::map<std::string, plan::Bundle>& compositions() {
  static const std::map<std::string, plan::Bundle> all = [] {
    std::map<std::string, plan::Bundle> made;
    for (const auto& entry : std::filesystem::directory_iterator(test::source_path("tests/mutation/compositions"))) {
      std::ifstream file(entry.path());
      std::string first;
      std::getline(file, first);
      std::ostringstream strategy;
      strategy << file.rdbuf();
      const std::string model = std::filesystem::path(first).filename().string();
      made.emplace(entry.path().stem().string(), bundle(model, strategy.str()));
    }
    return made;
  }();
  return all;
}

std::string remarks(const std::string& model, const std::string& strategy) {
  diag::Diagnostics diags;
  const auto read = compiled(model, strategy, diags);
  if (!read.ok()) throw std::runtime_error(read.error().message + "\n" + diags.render_text(false));
  return diags.render_text(true);
}

std::string verdict(const std::string& model, const std::string& strategy,
                    const std::function<void(plan::Bundle&)>& change) {
  plan::Bundle changed = bundle(model, strategy);
  change(changed);
  const auto report = verify::verify(changed);
  return report.ok() ? "accepted: " + describe(report->equality) : report.error().code;
}

void in_each(plan::Bundle& bundle, const std::string& kernel, const std::function<void(plan::KernelCall&)>& change) {
  size_t found = 0;
  for (plan::Program& program : bundle.programs)
    for (plan::KernelCall& call : program.calls)
      if (call.kernel == kernel) change(call), ++found;
  if (found == 0) throw std::runtime_error("no call of " + kernel);
}

}  // namespace piper::compiled
