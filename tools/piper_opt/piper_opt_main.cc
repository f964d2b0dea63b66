// piper-opt: runs passes on a .pir file and prints the result, or checks golden files.
//   piper-opt FILE.pir --passes fold,normalise_losses [--param KEY=VALUE]...
//   piper-opt --test FILE...       every file against the expectations in its comments
// Exit status: 0 done, 1 a file is wrong or an expectation broken, 2 command line, 70 our bug.
#include <CLI/CLI.hpp>

#include <fstream>
#include <iostream>
#include <sstream>

#include "compiler/directives/directive_table.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/pipeline.h"
#include "compiler/driver/run_pipeline.h"
#include "compiler/strategy/loader.h"
#include "schemas/command_line/command_line.h"
#include "tools/piper_opt/golden_file.h"
#include "tools/piper_opt/run_passes.h"
#include "tools/piper_opt/run_pipeline_passes.h"

namespace piper::opt {
namespace {

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }
std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }
bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// "name:LINE:COLUMN: text" of a parser's failure as a diagnostic at that place.
void report(const Status& status, const std::string& name, const std::string& text, diag::Diagnostics& diags) {
  if (status.ok() || status.error().reported) return;
  diag::Span span{diags.add_file(name, text), 0, 0};
  std::string message = status.error().message;
  if (message.compare(0, name.size() + 1, name + ":") == 0) {
    std::istringstream in(message.substr(name.size() + 1));
    char colon = 0;
    in >> span.line >> colon >> span.column >> colon;
    std::getline(in, message);
  }
  diags.error(status.error().code, span) << message;
}

Status run(const std::string& name, const std::string& text, const GoldenFile& golden, diag::Diagnostics& diags,
           std::string& output) {
  if (is_module(text)) {
    PIPER_ASSIGN(output, run_pipeline_passes({name, text, golden.folder, golden.passes, golden.fail_in}, diags));
    return {};
  }
  PIPER_ASSIGN(ir::Graph graph, ir::parse_graph(text, name));
  PIPER_RETURN_IF_ERROR(ir::verify(graph));
  for (const std::string& pass : golden.passes) {
    PIPER_RETURN_IF_ERROR(run_pass(pass, golden.params, graph, diags));
    PIPER_RETURN_IF_ERROR(ir::verify(graph));
  }
  output = ir::print(graph);
  PIPER_ASSIGN(ir::Graph again, ir::parse_graph(output, name));
  if (ir::print(again) != output) return Status::failure("", "the output does not read back to the same text");
  return {};
}

// Warnings and remarks, a line each.
std::string told(const diag::Diagnostics& diags) {
  std::string text;
  for (const diag::Diagnostic& d : diags.all())
    if (d.severity != diag::Severity::kError)
      text += (d.severity == diag::Severity::kWarning ? "warning: " : "remark: ") + d.message + "\n";
  return text;
}

// A strategy file with its model; errors are in `diags`.
std::string compile(const std::string& path, const GoldenFile& golden, diag::Diagnostics& diags) {
  driver::CompileOptions options;
  options.strategy = path;
  options.model = folder_of(path) + golden.model;
  options.verify_each = true;
  options.overrides = golden.overrides;
  options.weights = plan::WeightMode::kNone;
  const auto param = [&](const char* key) {
    const auto it = golden.params.find(key);
    return it == golden.params.end() ? std::string() : it->second;
  };
  const std::string expand = param("expand"), emit = param("emit");
  if (!expand.empty()) options.expand = expand == "csv" ? driver::Expand::kCsv : driver::Expand::kYaml;
  if (!emit.empty()) options.emit = emit == "plan" ? driver::Emit::kPlan : driver::Emit::kDag;
  options.stop_after = param("stop");
  if (param("device") == "cuda") options.target = {plan::DeviceKind::kCuda, plan::Summing::kLibrary};
  std::ostringstream out, err;
  const auto done = driver::compile(options, diags, out, err);
  if (!done.ok() && !done.error().reported) diags.error(done.error().code) << done.error().message;
  return out.str() + told(diags);
}

// "" where every expectation holds.
std::string test(const std::string& path, const std::string& text) {
  Result<GoldenFile> golden = read_golden(text);
  if (!golden.ok()) return golden.error().message;
  diag::Diagnostics diags;
  golden->folder = folder_of(path);
  std::string output, name = base_name(path);
  if (!golden->model.empty()) {
    output = compile(path, *golden, diags);
  } else if (ends_with(path, ".yaml") || ends_with(path, ".json")) {
    (void)strategy::parse_strategy(name, text, golden->overrides, directives::all_specs(),
                                   diags);  // its errors are in diags
  } else {
    report(run(name, text, *golden, diags, output), name, text, diags);
    output += told(diags);
  }
  if (!golden->errors.empty()) output += diags.render_text(false);
  std::string broken = broken_errors(*golden, diags.all());
  if (broken.empty()) broken = broken_check(*golden, output);
  return broken.empty() || output.empty() ? broken : broken + "\n--- output\n" + output;
}

// As Markdown, which docs/architecture.md holds as it is.
void list_passes(std::ostream& out) {
  std::string_view phase;
  for (const driver::Pass& pass : driver::pipeline()) {
    if (pass.phase != phase) out << (phase.empty() ? "" : "\n") << "Phase `" << pass.phase << "`:\n\n";
    phase = pass.phase;
    out << "- **" << pass.name << "** needs: " << pass.needs << ". Ensures: " << pass.ensures
        << ". Why here: " << pass.why << ".\n";
  }
}

int main_of(int argc, char** argv) {
  std::vector<std::string> files, params;
  std::string passes;
  bool testing = false;
  bool listing = false;
  std::string fail_in;
  CLI::App app{"Runs passes on model graphs and modules in text form (.pir).", "piper-opt"};
  app.add_option("FILE", files, "a .pir file; with --test also strategies (.yaml)");
  app.add_flag("--list-passes", listing,
               "the pipeline of piperc: every pass, what it needs and ensures, why it is there");
  app.add_option("--fail-in", fail_in, "fail in this pass as if it had a bug")->group("");
  app.add_option("--passes", passes, "passes in order, separated by commas");
  app.add_option(
      "--param", params,
      "KEY=VALUE for the passes: local_batch, pieces, batch, per_microbatch, devices, sharded, capacity, overflow");
  app.add_flag("--test", testing, "check the files against the expectations in their comments");
  std::string footer = "passes on graphs:";
  for (const std::string& name : pass_names()) footer += " " + name;
  footer += "\npasses on modules: piper-opt --list-passes";
  app.footer(footer);
  command_line::add_version(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return command_line::end(app, e, 2);
  }
  if (listing) {
    list_passes(std::cout);
    return 0;
  }
  if (files.empty()) {
    std::cerr << "piper-opt: a file is needed; see piper-opt --help\n";
    return 2;
  }
  int failed = 0;
  for (const std::string& path : files) {
    std::ifstream in(path, std::ios::binary);
    if (!in) {
      std::cerr << path << ": cannot be read\n";
      return 1;
    }
    std::ostringstream buffer;
    buffer << in.rdbuf();
    const std::string text = buffer.str();
    if (testing) {
      std::string broken = test(path, text);
      if (!broken.empty()) {
        std::cerr << path << ": " << broken << "\n";
        ++failed;
      }
      continue;
    }
    GoldenFile golden;
    golden.folder = folder_of(path);
    golden.fail_in = fail_in;
    std::istringstream list(passes);
    for (std::string pass; std::getline(list, pass, ',');) golden.passes.push_back(pass);
    for (const std::string& param : params)
      golden.params[param.substr(0, param.find('='))] = param.substr(param.find('=') + 1);
    diag::Diagnostics diags;
    std::string output;
    report(run(base_name(path), text, golden, diags, output), base_name(path), text, diags);
    std::cerr << diags.render_text(false);
    if (diags.failed()) return 1;
    std::cout << output;
  }
  if (testing) std::cout << files.size() << " files, " << failed << " failed\n";
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace piper::opt

int main(int argc, char** argv) {
  try {
    return piper::opt::main_of(argc, argv);
  } catch (const piper::driver::PassFailure& bug) {
    std::cerr << "bug in piper-opt: " << bug.pass() << ": " << bug.what() << "\n";
    return 70;
  } catch (const std::exception& e) {
    std::cerr << "bug in piper-opt: " << e.what() << "\n";
    return 70;
  }
}
