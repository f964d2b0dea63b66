// piper-plan: looks at plan bundles. Exit status: 0 done, 1 refuted, damaged or different
// (diff --exit-code, bisect), 2 command line (diff, bisect: also what cannot be read), 70 our bug.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>

#include "compiler/machine/load_machine.h"
#include "schemas/command_line/command_line.h"
#include "schemas/plan/durable_files.h"
#include "schemas/plan/file_bytes.h"
#include "tools/piper_plan/commands.h"

namespace piper::tools {
namespace {

// A subcommand as the command line declares it, and what it does once that has been read: the exit status.
struct Subcommand {
  CLI::App* declared;
  std::function<int()> run;
};
constexpr int kRefuted = 1, kCommandLine = 2, kBug = 70;

int print(const Result<std::string>& result) {
  if (result.ok()) {
    std::fputs(result->c_str(), stdout);
    return 0;
  }
  const auto& error = result.error();
  if (error.reported) return kRefuted;
  const std::string code = error.code.empty() ? "" : "error[" + error.code + "]: ";
  std::fprintf(stderr, "piper-plan: %s%s\n", code.c_str(), error.message.c_str());
  // P0604 to P0611: what a file of a bundle says cannot be.
  if (error.code >= "P0604" && error.code <= "P0611")
    std::fprintf(stderr, "help: compile it again: piperc MODEL --strategy FILE -o DIR\n");
  return kRefuted;
}

int print_difference(const Result<Difference>& result, bool exit_code) {
  if (!result.ok()) {
    (void)print(result.status());
    return kCommandLine;
  }
  std::fputs(result->text.c_str(), stdout);
  return exit_code && result->differs ? kRefuted : 0;
}

// What is listed, and whether all of it is as it should be.
int print_list(const Result<Difference>& result) {
  return result.ok() ? print_difference(result, true) : print(result.status());
}

// A picture or a trace, into a file of its own.
int write_picture(const std::string& path, const Result<std::string>& picture) {
  if (!picture.ok()) return print(picture);
  if (auto written = plan::write_file(path, *picture); !written.ok())
    return print(Result<std::string>(std::move(written)));
  return 0;
}

// NO_COLOR: https://no-color.org.
bool in_colour(const std::string& choice) {
  if (choice != "auto") return choice == "always";
  const char* const refused = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 && (refused == nullptr || refused[0] == '\0');
}

void add_bundle(CLI::App* command, std::string& directory) {
  command->add_option("DIR", directory, "plan bundle")->required();
}

void add_costs(CLI::App* command, Costs& costs) {
  command->add_option("--forward", costs.forward, "time of one forward")->check(CLI::NonNegativeNumber);
  command->add_option("--backward", costs.backward, "time of one backward")->check(CLI::NonNegativeNumber);
}

Subcommand add_verify(CLI::App& app) {
  struct Flags {
    std::string directory;
    VerifyOptions options;
    bool json = false;
  };
  const auto flags = std::make_shared<Flags>();
  auto* const command =
      app.add_subcommand("verify",
                         "prove that the plans compute the training step of the model, without deadlock and data "
                         "race, or say what refutes them; exit 1 when they are refuted or cannot be read");
  add_bundle(command, flags->directory);
  command->add_flag("--verbose", flags->options.verbose,
                    "how long each part of the proof took, and how much it looked at");
  command->add_flag("--json", flags->json, "as one JSON object, a refutation, too")->excludes("--verbose");
  return {command, [flags] {
            if (flags->json) return print_list(verify_as_json(flags->directory));
            return print(verify_bundle(flags->directory, flags->options));
          }};
}

Subcommand add_show(CLI::App& app) {
  struct Flags {
    std::string directory, colour = "auto", svg, html;
    ShowOptions options;
    StepTimes times;  // of the page
  };
  const auto flags = std::make_shared<Flags>();
  auto* const command = app.add_subcommand("show", "the schedule as a picture, ranks, memory, streams");
  add_bundle(command, flags->directory);
  command->add_option("--columns", flags->options.columns, "width of the picture, 0 = all")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--all", flags->options.all, "every row of the picture and every stream");
  command
      ->add_option("--color", flags->colour,
                   "of the picture: always, never, auto (on a terminal, unless NO_COLOR is set)")
      ->check(CLI::IsMember({"always", "never", "auto"}))
      ->capture_default_str();
  // Each of these is the whole answer, and the terminal's options are of its text alone.
  const auto instead = [](CLI::Option* option) {
    return option->excludes("--columns")->excludes("--all")->excludes("--color");
  };
  auto* const picture =
      instead(command->add_option("--svg", flags->svg, "write the picture to this file instead, as SVG"));
  auto* const page = instead(command->add_option("--html", flags->html,
                                                 "write the step to this file instead, as a page: time line, messages, "
                                                 "memory, dependences"))
                         ->excludes(picture);
  auto* const profile = command
                            ->add_option("--profile", flags->times.profile,
                                         "times measured by piper-run --profile, drawn below the others")
                            ->needs(page);
  instead(command->add_flag("--json", flags->options.json, "only the figures, as one JSON object"))
      ->excludes(picture)
      ->excludes(page);
  add_costs(command, flags->options.costs);
  auto* const target = command->add_option("--target", flags->times.target, machine::target_help("times on a machine"))
                           ->needs(page)
                           ->excludes(profile)
                           ->excludes("--forward")
                           ->excludes("--backward");
  command->add_option("--kernel-times", flags->times.kernel_times, "times measured by piper-run --calibrate")
      ->needs(target);
  return {command, [flags] {
            ShowOptions& options = flags->options;
            flags->times.costs = options.costs;
            if (!flags->html.empty()) return write_picture(flags->html, draw_html(flags->directory, flags->times));
            if (!flags->svg.empty()) return write_picture(flags->svg, draw_svg(flags->directory, options.costs));
            options.colour = in_colour(flags->colour);
            return print(show(flags->directory, options));
          }};
}

Subcommand add_diff(CLI::App& app) {
  struct Flags {
    std::string directory, other;
    bool exit_code = false, json = false, markdown = false;
    int64_t lines = 20;
    Costs costs;
    DiffOptions options;
  };
  const auto flags = std::make_shared<Flags>();
  auto* const command = app.add_subcommand("diff", "what differs between two bundles, by rank and line");
  add_bundle(command, flags->directory);
  command->add_option("OTHER", flags->other, "plan bundle to compare with")->required();
  command->add_flag("--exit-code", flags->exit_code, "exit 1 when they differ");
  auto* const json = command->add_flag("--json", flags->json, "only what it means, as one JSON object");
  auto* const markdown =
      command->add_flag("--markdown", flags->markdown, "only what it means, as tables")->excludes(json);
  add_costs(command, flags->costs);
  command->add_option("--lines", flags->lines, "lines shown per file, 0 = all")
      ->check(CLI::NonNegativeNumber)
      ->excludes(json)
      ->excludes(markdown);
  DiffOptions& options = flags->options;
  auto* const target =
      command->add_option("--target", options.target, machine::target_help("steps as long as on a machine"))
          ->excludes("--forward")
          ->excludes("--backward");
  command->add_option("--kernel-times", options.kernel_times, "times measured by piper-run --calibrate")->needs(target);
  command
      ->add_option("--strategies", options.strategies,
                   "the strategies' files, OLD NEW; default: those of the bundles' names here, next to them or in "
                   "strategies/")
      ->expected(2);
  auto* const forward = command->get_option("--forward");
  auto* const backward = command->get_option("--backward");
  return {command, [flags, forward, backward] {
            if (*forward || *backward) flags->options.units = flags->costs;
            const auto meaning = [&](TableForm form) {
              flags->options.form = form;
              return diff_steps(flags->directory, flags->other, flags->options);
            };
            if (flags->json || flags->markdown)
              return print_difference(meaning(flags->json ? TableForm::kJson : TableForm::kMarkdown), flags->exit_code);
            // Plans that cannot be played have no figures, but lines.
            if (const auto told = meaning(TableForm::kText); told.ok() && told->differs) std::puts(told->text.c_str());
            return print_difference(diff(flags->directory, flags->other, flags->lines), flags->exit_code);
          }};
}

struct SimulateFlags {
  std::string directory, profile, trace;
  Costs costs;
  Link link;
  PriceOptions priced;
  bool delays = false;  // a link's were given
};

int run_simulate(const SimulateFlags& flags) {
  const std::string& table = flags.priced.kernel_times;
  if (flags.delays && flags.profile.empty() && table.empty()) {
    std::fprintf(stderr, "piper-plan: links of a delay need times: --profile or --kernel-times\n");
    return kCommandLine;
  }
  if (!flags.trace.empty() && !table.empty() && flags.priced.target.empty()) {
    std::fprintf(stderr, "piper-plan: a trace with --kernel-times needs --target\n");
    return kCommandLine;
  }
  const StepTimes times{flags.costs, flags.profile, flags.link, flags.priced.target, table};
  if (!flags.trace.empty())
    if (const int status = write_picture(flags.trace, trace_bundle(flags.directory, times)); status != 0) return status;
  if (!flags.priced.target.empty()) return print(price(flags.directory, flags.priced));
  if (!table.empty()) return print(simulate_by_table(flags.directory, table, flags.link, flags.priced.json));
  if (!flags.profile.empty())
    return print(simulate_measured(flags.directory, flags.profile, flags.link, flags.priced.json));
  return print(simulate_bundle(flags.directory, flags.costs, flags.priced.json));
}

Subcommand add_simulate(CLI::App& app) {
  const auto flags = std::make_shared<SimulateFlags>();
  auto* const command =
      app.add_subcommand("simulate", "step time with unit costs, with those that a run measured, or on a machine");
  add_bundle(command, flags->directory);
  add_costs(command, flags->costs);
  const auto instead_of_costs = [](CLI::Option* option) {
    return option->excludes("--forward")->excludes("--backward");
  };
  auto* const measured =
      instead_of_costs(command->add_option("--profile", flags->profile, "times measured by piper-run --profile"));
  auto* const latency = command->add_option("--latency-us", flags->link.latency_us, "of every message between ranks")
                            ->check(CLI::NonNegativeNumber);
  auto* const rate = command->add_option("--bytes-per-second", flags->link.bytes_per_second, "of every link")
                         ->check(CLI::NonNegativeNumber);
  PriceOptions& priced = flags->priced;
  auto* const target =
      instead_of_costs(command->add_option("--target", priced.target, machine::target_help("price for a machine"))
                           ->excludes(measured)
                           ->excludes(latency)
                           ->excludes(rate));
  instead_of_costs(
      command->add_option(
          "--kernel-times", priced.kernel_times,
          "times measured by piper-run --calibrate; without a machine, what piper-run --kernel-times waits for"))
      ->excludes(measured);
  command->add_flag("--json", priced.json, "as one JSON object");
  command->add_option("--lines", priced.lines, "of the critical path, 0 = all")
      ->check(CLI::NonNegativeNumber)
      ->needs(target);
  command->add_option("--trace", flags->trace, "also write the step to this file, for https://ui.perfetto.dev");
  return {command, [flags, latency, rate] {
            flags->delays = *latency || *rate;
            return run_simulate(*flags);
          }};
}

Subcommand add_explain(CLI::App& app) {
  struct Flags {
    std::string directory;
    ExplainOptions options;
  };
  const auto flags = std::make_shared<Flags>();
  auto* const command =
      app.add_subcommand("explain", "where instructions come from, what fills the arena, who writes a buffer");
  add_bundle(command, flags->directory);
  command->add_option("--rank", flags->options.rank, "one rank")->check(CLI::NonNegativeNumber);
  auto* const instruction =
      command->add_option("--instruction", flags->options.instruction, "its position in the rank's list, from 0")
          ->check(CLI::NonNegativeNumber);
  auto* const buffer = command->add_option("--buffer", flags->options.buffer, "a buffer's name")->excludes(instruction);
  command->add_flag("--json", flags->options.json, "where instructions come from, as one JSON list")
      ->excludes(instruction)
      ->excludes(buffer);
  return {command, [flags] { return print(explain(flags->directory, flags->options)); }};
}

Subcommand add_report(CLI::App& app) {
  struct Flags {
    std::string directory, profile;
    ReportOptions options;
    bool json = false, markdown = false;
  };
  const auto flags = std::make_shared<Flags>();
  ReportOptions& options = flags->options;
  auto* const command = app.add_subcommand("report", "what each line of the strategy costs, predicted and measured");
  add_bundle(command, flags->directory);
  command->add_option("PROFILE", flags->profile, "times measured by piper-run --profile")->required();
  add_costs(command, options.costs);
  auto* const target = command->add_option("--target", options.target, machine::target_help("predict for a machine"))
                           ->excludes("--forward")
                           ->excludes("--backward");
  command->add_option("--kernel-times", options.kernel_times, "times measured by piper-run --calibrate")->needs(target);
  command->add_option("--log", options.log, "of the same run, piper-run --log: for its peak memory");
  auto* const json = command->add_flag("--json", flags->json, "as one JSON object");
  command->add_flag("--markdown", flags->markdown, "as tables of Markdown")->excludes(json);
  return {command, [flags] {
            if (flags->json) flags->options.form = TableForm::kJson;
            if (flags->markdown) flags->options.form = TableForm::kMarkdown;
            return print(report_lines(flags->directory, flags->profile, flags->options));
          }};
}

Subcommand add_tune(CLI::App& app) {
  struct Flags {
    std::string directory;
    TuneOptions options;
  };
  const auto flags = std::make_shared<Flags>();
  TuneOptions& options = flags->options;
  auto* const command = app.add_subcommand(
      "tune", "write a faster strategy: moves passes, buckets, prefetch and recomputation (calls piperc --tune)");
  command->add_option("DIR", flags->directory, "plan bundle of the strategy to start from")->required();
  command->add_option("--target", options.target, machine::target_help("the machine that plans are priced for"))
      ->required();
  command->add_option("--memory-limit,--limit", options.limit, "bytes per rank; default: the machine's memory")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::PositiveNumber);
  command->add_option("--model", options.model, "the model's file; default: the one that DIR names, in this folder");
  command->add_option("--strategy", options.strategy, "the strategy's file; default: the one that DIR names");
  command->add_option("--set", options.sets, "KEY=VALUE, as piperc had them")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command->add_option("--kernel-times", options.kernel_times, "times measured by piper-run --calibrate");
  command->add_option("--profile", options.profile, "times of a run of DIR, measured by piper-run --profile");
  command->add_option("--candidates", options.candidates, "strategies that are compiled at most; default: 300")
      ->check(CLI::PositiveNumber);
  command->add_flag("--checkpoints", options.checkpoints, "runs will save checkpoints, as piperc --checkpoints");
  command->add_option("-o,--output", options.output,
                      "the strategy file that is written; default: NAME.tuned.yaml in this folder");
  return {command, [flags] {
            const auto words = tune_command(flags->directory, flags->options);
            return print(Result<std::string>(words.ok() ? run_instead(*words) : words.status()));
          }};
}

Subcommand add_fits(CLI::App& app) {
  struct Flags {
    std::string model;
    FitsOptions options;
  };
  const auto flags = std::make_shared<Flags>();
  FitsOptions& options = flags->options;
  auto* const command =
      app.add_subcommand("fits", "whether a model fits on machines, and how, in one line (calls piperc --fits)");
  command->add_option("MODEL", flags->model, "the model, an .onnx or .pt2 file")->required();
  command->add_option("--target", options.target, machine::target_help("the machine"))->required();
  command->add_option(
      "--strategy", options.strategy,
      "batch, optimizer and precision, without directives; default: AdamW, a sample a rank, bf16 on GPUs");
  auto* const nodes = command->add_option("--nodes", options.nodes, "nodes of the target; default: 1");
  nodes->check(CLI::PositiveNumber);
  command->add_option("--ranks", options.ranks, "ranks, in place of --nodes")
      ->check(CLI::PositiveNumber)
      ->excludes(nodes);
  command->add_option("--memory-limit,--limit", options.limit, "bytes per rank; default: the machine's memory")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::PositiveNumber);
  command->add_option("--budget", options.budget_s, "seconds after which the best so far is said")
      ->check(CLI::PositiveNumber);
  command->add_option("--set", options.sets, "KEY=VALUE overrides a key of the strategy")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command->add_option("--fix", options.fixed, "NAME=VALUE keeps a choice, as tp=8")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  return {command,
          [flags] { return print(Result<std::string>(run_instead(fits_command(flags->model, flags->options)))); }};
}

Subcommand add_bisect(CLI::App& app) {
  struct Flags {
    std::string a, b;
    double tolerance = 0;
  };
  const auto flags = std::make_shared<Flags>();
  auto* const command = app.add_subcommand(
      "bisect", "the first value in which two runs differ, by what piper-run --digest wrote; exit 1 when they differ");
  command->add_option("A", flags->a, "digests of one run: a file, or a folder of files")->required();
  command->add_option("B", flags->b, "those of the other")->required();
  command->add_option("--tolerance", flags->tolerance, "relative difference of values that count as equal, as 1e-5")
      ->check(CLI::Range(0.0, 1.0));
  return {command, [flags] { return print_difference(bisect(flags->a, flags->b, flags->tolerance), true); }};
}

Subcommand add_whyhang(CLI::App& app) {
  struct Flags {
    std::string directory;
    std::vector<std::string> rings;
    int64_t events = 0;
  };
  const auto flags = std::make_shared<Flags>();
  auto* const command = app.add_subcommand("whyhang", "who keeps a run from going on, by the rings of its ranks");
  add_bundle(command, flags->directory);
  command
      ->add_option("RINGS", flags->rings,
                   "folders of rings: of piper-run --rings, or what piper-launch has kept, on each node")
      ->required();
  command->add_option("--events", flags->events, "show so many of the last events of every thread")
      ->check(CLI::NonNegativeNumber);
  return {command, [flags] { return print(why_hang(flags->directory, flags->rings, flags->events)); }};
}

std::vector<Subcommand> add_checkpoint(CLI::App& app) {
  struct Flags {
    std::string directory, other;
    ExportOptions options;
    bool json = false;
  };
  const auto flags = std::make_shared<Flags>();
  auto* const command = app.add_subcommand("checkpoint", "checkpoints that piper-run has saved");
  command->require_subcommand(1);
  auto* const list = command->add_subcommand("ls", "which there are");
  auto* const check = command->add_subcommand("verify", "whether every byte is what was committed");
  auto* const compare = command->add_subcommand("diff", "what differs between two; exit 1 when they differ");
  auto* const write = command->add_subcommand("export", "the weights under the model's own names, for --load");
  for (auto* const each : {list, check, compare, write})
    each->add_option("DIR", flags->directory, "folder of checkpoints, or of one")->required();
  for (auto* const each : {list, check, compare}) each->add_flag("--json", flags->json, "as one JSON list");
  compare->add_option("OTHER", flags->other, "that to compare with")->required();
  write->add_option("--step", flags->options.step, "its step; default: the newest valid one")
      ->check(CLI::NonNegativeNumber);
  write
      ->add_option("-o,--output", flags->options.out,
                   "the .safetensors file to write, or the folder with --max-shard-size")
      ->required();
  write
      ->add_option("--max-shard-size", flags->options.max_shard_bytes,
                   "write files of at most so many bytes and an index, as Hugging Face does: 5GB, 500MB")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::PositiveNumber);
  write->add_option("--dtype", flags->options.dtype, "round floating-point tensors to this type; default: as stored")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  return {{list, [flags] { return print_list(list_checkpoints(flags->directory, flags->json)); }},
          {check,
           [flags] {
             if (flags->json) return print_list(verify_checkpoints_as_json(flags->directory));
             return print(verify_checkpoints(flags->directory));
           }},
          {compare,
           [flags] { return print_difference(diff_checkpoints(flags->directory, flags->other, flags->json), true); }},
          {write, [flags] { return print(export_checkpoint(flags->directory, flags->options)); }}};
}

int run(int argc, char** argv) {
  CLI::App app("Looks at plan bundles: what will run, why, how long, and the proof that it can", "piper-plan");
  app.require_subcommand(1);
  std::vector<Subcommand> commands;
  for (const auto add : {add_verify, add_show, add_diff, add_simulate, add_explain, add_report, add_tune, add_fits})
    commands.push_back(add(app));
  for (Subcommand& each : add_checkpoint(app)) commands.push_back(std::move(each));
  for (const auto add : {add_whyhang, add_bisect}) commands.push_back(add(app));
  command_line::add_version(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return command_line::end(app, error, kCommandLine);
  }
  for (const Subcommand& command : commands)
    if (*command.declared) return command.run();
  return kBug;  // require_subcommand(1) lets none of them be missing
}

}  // namespace
}  // namespace piper::tools

int main(int argc, char** argv) {
  piper::plan::let_large_files_fail();
  try {
    return piper::tools::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bug in piper-plan: %s\n", error.what());
    return 70;
  }
}
