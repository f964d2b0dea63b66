#include "compiler/driver/reproducer.h"

#include <fstream>
#include <sstream>
#include <utility>

#include "compiler/driver/compilation.h"
#include "compiler/driver/run_pipeline.h"
#include "compiler/ir/module_text.h"

namespace piper::driver {
namespace {

constexpr std::string_view kStrategyLine = "// strategy: ", kSetLine = "// set: ", kModelLine = "// model: ";

// The module before the pass.
Result<std::string> text_before(const CompileOptions& options, const std::string& pass) {
  diag::Diagnostics diags;
  Compilation c;
  PIPER_RETURN_IF_ERROR(load(options, c, diags));
  Status failed;
  for (const Pass& before : pipeline()) {
    if (before.name == pass) break;
    failed = run_pass(before, c, {}, diags);
    if (!failed.ok()) break;
  }
  PIPER_RETURN_IF_ERROR(std::move(failed));
  return ir::print(c.module);
}

std::string strategy_lines(const CompileOptions& options) {
  std::ifstream file(options.strategy);
  std::string text;
  for (std::string line; std::getline(file, line);) text += std::string(kStrategyLine) + line + "\n";
  for (const std::string& set : options.overrides) text += std::string(kSetLine) + set + "\n";
  return text;
}

}  // namespace

std::string write_reproducer(const CompileOptions& options, const std::string& pass) {
  const Result<std::string> before = text_before(options, pass);
  if (!before.ok()) return "no reproducer: the compilation does not reach the pass again";
  std::ofstream file(options.reproducer);
  const std::string repeat = "piper-opt " + options.reproducer + " --passes " + pass +
                             (options.fail_in.empty() ? "" : " --fail-in " + options.fail_in);
  // The strategy first: its lines have the numbers that places in the module name.
  file << strategy_lines(options) << kModelLine << options.model << "\n// " << repeat << "\n" << *before;
  file.flush();
  if (!file) return "no reproducer: '" + options.reproducer + "' cannot be written";
  return "reproducer: " + options.reproducer + "; repeat with: " + repeat;
}

ReproducerHeader read_reproducer_header(const std::string& text) {
  ReproducerHeader header;
  std::istringstream in(text);
  std::string gap;  // empty lines for those of other kinds
  for (std::string line; std::getline(in, line); gap += "\n") {
    if (line.starts_with(kStrategyLine)) header.strategy += std::exchange(gap, "") + line.substr(kStrategyLine.size());
    else if (line.starts_with(kSetLine)) header.overrides.push_back(line.substr(kSetLine.size()));
    else if (line.starts_with(kModelLine)) header.model = line.substr(kModelLine.size());
    else if (line.starts_with("module")) break;
  }
  return header;
}

}  // namespace piper::driver
