// piperc: model + strategy -> plan bundle, or a better strategy. Flags, driver, exit status; nothing else.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>

#ifdef PIPER_MIMALLOC
#include <mimalloc.h>
#endif

#include "compiler/diag/explain.h"
#include "compiler/directives/directive_table.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/run_pipeline.h"
#include "compiler/machine/load_machine.h"
#include "compiler/search/search.h"
#include "compiler/tune/tune.h"
#include "schemas/base/check.h"
#include "schemas/command_line/command_line.h"
#include "schemas/plan/durable_files.h"

namespace {

constexpr int kUserError = 1, kUsage = 2, kTooLarge = 3, kInternal = 70;

using piper::driver::CompileOptions;
using piper::driver::Emit;
using piper::driver::Expand;
using piper::driver::Outcome;
using piper::plan::DeviceKind;
using piper::plan::Summing;
using piper::plan::WeightMode;

// The command line, as words where it has words.
struct Flags {
  CompileOptions options;
  piper::tune::TuneOptions tuned;
  piper::search::SearchOptions searched;
  double budget_s = 0;
  bool fits = false, verbose = false;
  std::string diagnostics = "text", explain, help_directive, emit = "none", expand = "none", weights = "copy", device,
              machine, reference = "json", reduction;
};

void declare_inputs(CLI::App& app, Flags& flags) {
  CompileOptions& options = flags.options;
  app.add_option("model", options.model, "the model, an .onnx or .pt2 file");
  app.add_option("--strategy", options.strategy, "the strategy, YAML or JSON");
  app.add_option("-o,--output", options.output, "directory of the plan bundle; a bundle there is replaced");
  app.add_option("--set", options.overrides, "KEY=VALUE overrides a key of the strategy")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  app.add_option("--route", options.route, "how to read ONNX: by FX text, by operators, or what the file has")
      ->check(CLI::IsMember({"auto", "fx", "onnx"}));
}

void declare_plans(CLI::App& app, Flags& flags) {
  CompileOptions& options = flags.options;
  app.add_option("--reference", flags.reference,
                 "the model's own step in the bundle, which the proof compares plans with")
      ->check(CLI::IsMember({"json", "none"}));
  app.add_option("--weights", flags.weights, "copy the weights into the bundle, link their file, or leave them out")
      ->check(CLI::IsMember({"copy", "link", "none"}));
  app.add_option("--device", flags.device,
                 "what the plans are made for: the target's device, else cpu; a plan for cuda runs on CPU ranks, too")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--reduction", flags.reduction,
                 "how sums over ranks are added: in the order of positions, or as the device's library does")
      ->check(CLI::IsMember({"position", "library"}));
  // CLI11's own check answers with the largest double, digit by digit.
  const CLI::Validator bytes(
      [](std::string& text) {
        const bool positive = text.find_first_not_of("0123456789") == std::string::npos &&
                              text.find_first_not_of('0') != std::string::npos;
        return positive ? std::string() : "'" + text + "' is not a number of bytes above 0, as 80GB or 70000000000";
      },
      "BYTES");
  app.add_option("--memory-limit", options.memory_limit, "bytes per rank; a plan that needs more is refused")
      ->transform(CLI::AsSizeValue(true))
      ->check(bytes);
  app.add_flag("--checkpoints", options.checkpoints,
               "runs will save checkpoints: the predicted peak of CPU ranks has the copy that one is written from");
  app.add_option("--target", flags.machine,
                 piper::machine::target_help("machine to price a step for") +
                     "; status 3 where the plans do not fit in its memory");
}

void declare_views(CLI::App& app, Flags& flags) {
  CompileOptions& options = flags.options;
  const CLI::Validator passes(
      [](std::string& glob) {
        return piper::driver::names_a_pass(glob)
                   ? std::string()
                   : "'" + glob + "' matches no pass and no phase; piper-opt --list-passes names them";
      },
      "GLOB");
  app.add_option("--emit", flags.emit,
                 "print the graph, the dag or the plan; reference: plan for one device, whatever the strategy says")
      ->check(CLI::IsMember({"none", "graph", "dag", "plan", "reference"}));
  app.add_option("--expand", flags.expand, "print what the schedule expands to")
      ->expected(0, 1)
      ->default_str("yaml")
      ->check(CLI::IsMember({"none", "yaml", "csv"}));
  app.add_option("--stop-after", options.stop_after, "the last phase or pass to run")
      ->check(CLI::IsMember(piper::driver::stops()));
  app.add_option("--print-ir-after", options.print_ir_after,
                 "print the module after the passes and phases whose names match this glob, as in 'insert_*'")
      ->check(passes);
  app.add_flag("--time-phases", options.time_phases, "print the time of each pass");
  app.add_flag("--verify-each", options.verify_each, "check the module after each pass");
  app.add_option("--fail-in", options.fail_in, "fail in this pass as if it had a bug: shows what a reproducer is")
      ->group("");
  app.add_flag("--verbose", flags.verbose, "print remarks");
  app.add_option("--diagnostics", flags.diagnostics, "text or json")->check(CLI::IsMember({"text", "json"}));
  // Each of these is the whole answer.
  const auto alone = [](CLI::Option* option) {
    return option->excludes("model")->excludes("--strategy")->excludes("--output");
  };
  auto* const explain = alone(app.add_option("--explain", flags.explain, "explain an error code"));
  alone(app.add_option("--help-directive", flags.help_directive, "describe a directive"))->excludes(explain);
}

void declare_search(CLI::App& app, piper::tune::TuneOptions& tuned) {
  auto* const tune = app.add_option("--tune", tuned.output,
                                    "write a strategy that is faster on --target within --memory-limit to this file; "
                                    "no bundle is made")
                         ->needs("--target")
                         ->excludes("--output")
                         ->excludes("--emit")
                         ->excludes("--expand")
                         ->excludes("--stop-after")
                         ->excludes("--print-ir-after");
  app.add_option("--kernel-times", tuned.kernel_times,
                 "of --tune, --search and --fits: times measured by piper-run --calibrate")
      ->needs("--target");
  app.add_option("--profile", tuned.profile,
                 "of --tune: times measured by piper-run --profile of this strategy's plans")
      ->needs(tune);
  app.add_option("--candidates", tuned.candidates,
                 "of --tune: strategies that are compiled at most; of --search: in tuning the first, at most 60")
      ->needs("--target")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

void declare_proposals(CLI::App& app, Flags& flags) {
  piper::search::SearchOptions& searched = flags.searched;
  const auto whole = [](CLI::Option* option) {
    for (const char* other : {"--output", "--emit", "--expand", "--stop-after", "--print-ir-after", "--tune"})
      option->excludes(other);
    return option->needs("--target");
  };
  auto* const search = whole(app.add_option(
      "--search", searched.directory,
      "propose whole strategies for --target within --memory-limit, and write them to this folder; --strategy has the "
      "batch, the optimizer and the precision, and no directives"));
  auto* const fits = whole(app.add_flag("--fits", flags.fits, "say whether the model fits on the target, and how"));
  fits->excludes(search);
  app.add_option("--nodes", searched.nodes, "of --search and --fits: nodes of the target")->check(CLI::Range(1, 65536));
  app.add_option("--ranks", searched.ranks, "of --search and --fits: ranks, in place of --nodes")
      ->check(CLI::Range(1, 1 << 20))
      ->excludes("--nodes");
  app.add_option("--fix", searched.fixed,
                 "of --search and --fits: NAME=VALUE keeps a choice, as pp=4; capacity=1.25 bounds the rows of experts")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  app.add_option("--keep", searched.keep, "of --search: strategies that are written")
      ->needs(search)
      ->check(CLI::Range(1, 99))
      ->capture_default_str();
  app.add_option("--within", searched.worth, "of --search: end when nothing can be faster by this part of a step")
      ->needs(search)
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--budget", flags.budget_s, "of --search and --fits: seconds after which the best so far is written")
      ->check(CLI::PositiveNumber);
  app.add_option("--dollars-per-hour", searched.dollars_per_hour, "of --search: what one rank costs")
      ->needs(search)
      ->check(CLI::PositiveNumber);
  app.add_flag("--json", searched.json, "of --search: print JSON")->needs(search);
}

// The options that flags say by a word.
void read_words(Flags& flags) {
  CompileOptions& options = flags.options;
  options.emit = std::map<std::string, Emit>{{"none", Emit::kNone},
                                             {"graph", Emit::kGraph},
                                             {"dag", Emit::kDag},
                                             {"plan", Emit::kPlan},
                                             {"reference", Emit::kReference}}
                     .at(flags.emit);
  options.reference = flags.reference == "json";
  options.expand =
      std::map<std::string, Expand>{{"none", Expand::kNone}, {"yaml", Expand::kYaml}, {"csv", Expand::kCsv}}.at(
          flags.expand);
  options.weights =
      std::map<std::string, WeightMode>{
          {"copy", WeightMode::kCopy}, {"link", WeightMode::kLink}, {"none", WeightMode::kNone}}
          .at(flags.weights);
}

// The device of the plans, which a machine says where no option does.
piper::Status read_target(Flags& flags, piper::diag::Diagnostics& diags) {
  CompileOptions& options = flags.options;
  std::optional<DeviceKind> asked;
  if (!flags.device.empty()) asked = flags.device == "cpu" ? DeviceKind::kCpu : DeviceKind::kCuda;
  if (!flags.machine.empty()) {
    PIPER_ASSIGN(options.machine, piper::machine::load_machine(flags.machine, diags, asked));
    asked = options.machine->device;
  }
  options.target.device = asked.value_or(DeviceKind::kCpu);
  const bool on_cpu = options.target.device == DeviceKind::kCpu;
  const bool by_position = flags.reduction.empty() ? on_cpu : flags.reduction == "position";
  options.target.summing = by_position ? Summing::kPosition : Summing::kLibrary;
  return piper::Status();
}

// Set by SIGINT while a search goes on, which then ends with the best so far.
volatile std::sig_atomic_t interrupted = 0;

void show_progress(size_t done, size_t all, double best_us) {
  constexpr size_t kCells = 30;
  const size_t full = all > 0 ? kCells * done / all : kCells;
  std::fprintf(stderr, "\r[%s%s] %zu of %zu", std::string(full, '#').c_str(), std::string(kCells - full, '.').c_str(),
               done, all);
  if (best_us > 0) std::fprintf(stderr, ", best %.5g ms", best_us / 1000);
  std::fprintf(stderr, "\x1b[K");
}

piper::Result<Outcome> search_or_fit(Flags& flags, piper::diag::Diagnostics& diags) {
  using Clock = std::chrono::steady_clock;
  piper::search::SearchOptions& searched = flags.searched;
  searched.compile = flags.options;
  searched.candidates = std::min(searched.candidates, flags.tuned.candidates);
  searched.kernel_times = flags.tuned.kernel_times;
  const Clock::time_point begin = Clock::now();
  searched.stop = [&flags, begin] {
    const std::chrono::duration<double> spent = Clock::now() - begin;
    return interrupted != 0 || (flags.budget_s > 0 && spent.count() > flags.budget_s);
  };
  const bool shown = isatty(STDERR_FILENO) != 0;
  if (shown) searched.progress = show_progress;
  // A second one ends the process.
  std::signal(SIGINT, [](int) {
    interrupted = 1;
    std::signal(SIGINT, SIG_DFL);
  });
  piper::Status status =
      flags.fits ? piper::search::fits(searched, diags, std::cout) : piper::search::search(searched, diags, std::cout);
  if (shown) std::fprintf(stderr, "\n");
  PIPER_RETURN_IF_ERROR(std::move(status));
  return Outcome::kMade;
}

piper::Result<Outcome> compile_or_tune(Flags& flags, piper::diag::Diagnostics& diags) {
  PIPER_RETURN_IF_ERROR(read_target(flags, diags));
  if (flags.fits || !flags.searched.directory.empty()) return search_or_fit(flags, diags);
  flags.options.process_ends_next = true;
  if (flags.tuned.output.empty()) return piper::driver::compile(flags.options, diags, std::cout, std::cerr);
  flags.tuned.compile = flags.options;
  PIPER_RETURN_IF_ERROR(piper::tune::tune(flags.tuned, diags, std::cout));
  return Outcome::kMade;
}

int explain_code(const std::string& code) {
  const std::string page(piper::diag::explain(code));
  if (page.empty()) {
    const bool of_a_run = code[0] == 'R' || code[0] == 'L';
    std::cerr << "piperc: " << code
              << (of_a_run ? " is an error of runs, or no error: see docs/errors/" + code + ".md\n"
                           : " is no error's code: see docs/errors/\n");
    return kUsage;
  }
  std::cout << page << "\n";
  return 0;
}

int describe_directive(const std::string& name) {
  const std::string page = piper::directives::help_directive(name);
  if (page.empty()) {
    std::cerr << "piperc: there is no directive '" << name << "'; there are";
    for (const auto* spec : piper::directives::all_specs()) std::cerr << " " << spec->name;
    std::cerr << "\n";
    return kUsage;
  }
  std::cout << page;
  return 0;
}

int make(Flags& flags) {
  piper::diag::Diagnostics diags;
  const piper::Result<Outcome> outcome = compile_or_tune(flags, diags);
  if (flags.diagnostics == "json") std::cerr << diags.render_json();
  else std::cerr << diags.render_text(flags.verbose);
  std::cout.flush();
  if (!std::cout) {
    std::cerr << "piperc: error[P0602]: standard output cannot be written\n";
    return kUserError;
  }
  if (outcome.ok()) return *outcome == Outcome::kTooLarge ? kTooLarge : 0;
  if (!outcome.error().reported) {
    const std::string& code = outcome.error().code;
    std::cerr << "piperc: error" << (code.empty() ? "" : "[" + code + "]") << ": " << outcome.error().message << "\n";
  }
  return kUserError;
}

int run(int argc, char** argv) {
  piper::plan::let_large_files_fail();
  CLI::App app("Compiles a model and a strategy into one plan per rank.", "piperc");
  Flags flags;
  declare_inputs(app, flags);
  declare_plans(app, flags);
  declare_views(app, flags);
  declare_search(app, flags.tuned);
  declare_proposals(app, flags);
  piper::command_line::add_version(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return piper::command_line::end(app, e, kUsage);
  }
  if (!flags.explain.empty()) return explain_code(flags.explain);
  if (!flags.help_directive.empty()) return describe_directive(flags.help_directive);
  if (flags.options.model.empty() || (flags.options.strategy.empty() && !flags.fits)) {
    std::cerr << "piperc: a model and --strategy are needed; see piperc --help\n";
    return kUsage;
  }
  if (app.count("--output") > 0 && flags.options.output.empty()) {
    std::cerr << "piperc: -o needs the name of a directory\n";
    return kUsage;
  }
  if (app.count("--output") > 0 && app.count("--stop-after") > 0 && flags.options.stop_after != "write") {
    std::cerr << "piperc: --stop-after " << flags.options.stop_after
              << " excludes --output: nothing is written there\n";
    return kUsage;
  }
  if (app.count("--expand") > 0 && flags.expand == "none") flags.expand = "yaml";
  read_words(flags);
  return make(flags);
}

#ifdef PIPER_MIMALLOC
// Huge pages from the first allocation on, which the constructors of libraries make: so this comes before them.
void use_huge_pages() {
  mi_option_enable(mi_option_large_os_pages);
  mi_option_set(mi_option_eager_commit_delay, 0);  // the first memory of each thread as well
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_constructors)() = use_huge_pages;
#endif

}  // namespace

int main(int argc, char** argv) {
  try {
    const int status = run(argc, argv);
#ifdef PIPER_NO_TEARDOWN
    std::cout.flush();
    std::cerr.flush();
    std::_Exit(status);
#endif
    return status;
  } catch (const std::exception& bug) {
    std::cerr << "bug in piperc: " << bug.what() << "\n";
    return kInternal;
  }
}
