// piper-plan: looks at plan bundles. Exit status: 0 done, 1 refuted, damaged or different
// (diff --exit-code, bisect), 2 command line (diff, bisect: also what cannot be read), 70 our bug.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "schemas/plan/file_bytes.h"
#include "tools/piper_plan/commands.h"

namespace {

using piper::tools::Costs;

int print(const piper::Result<std::string>& result) {
  if (result.ok()) {
    std::fputs(result->c_str(), stdout);
    return 0;
  }
  const auto& error = result.error();
  if (error.reported) return 1;
  std::fprintf(stderr, "piper-plan: %s%s%s\n", error.code.c_str(), error.code.empty() ? "" : ": ",
               error.message.c_str());
  return 1;
}

int print_diff(const piper::Result<piper::tools::Difference>& result, bool exit_code) {
  if (!result.ok()) {
    (void)print(result.status());
    return 2;
  }
  std::fputs(result->text.c_str(), stdout);
  return exit_code && result->differs ? 1 : 0;
}

// A picture or a trace, into a file of its own.
int write_picture(const std::string& path, const piper::Result<std::string>& picture) {
  if (!picture.ok()) return print(picture);
  if (auto written = piper::plan::write_file(path, *picture); !written.ok())
    return print(piper::Result<std::string>(std::move(written)));
  return 0;
}

// NO_COLOR: https://no-color.org.
bool in_colour(const std::string& choice) {
  if (choice != "auto") return choice == "always";
  const char* const refused = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 && (refused == nullptr || refused[0] == '\0');
}

void add_costs(CLI::App* command, Costs& costs) {
  command->add_option("--forward", costs.forward, "time of one forward")->check(CLI::NonNegativeNumber);
  command->add_option("--backward", costs.backward, "time of one backward")->check(CLI::NonNegativeNumber);
}

struct ReportCommand {
  std::string directory, profile;
  piper::tools::ReportOptions options;
  bool json = false, markdown = false;
};
CLI::App* add_report(CLI::App& app, ReportCommand& report) {
  auto* const command = app.add_subcommand("report", "what each line of the strategy costs, predicted and measured");
  command->add_option("DIR", report.directory, "plan bundle")->required();
  command->add_option("PROFILE", report.profile, "times measured by piper-run --profile")->required();
  add_costs(command, report.options.costs);
  auto* const target =
      command->add_option("--target", report.options.target, "predict for a machine: strategies/targets/*.yaml")
          ->excludes("--forward")
          ->excludes("--backward");
  command->add_option("--kernel-times", report.options.kernel_times, "times measured by piper-run --calibrate")
      ->needs(target);
  command->add_option("--log", report.options.log, "of the same run, piper-run --log: for its peak memory");
  auto* const json = command->add_flag("--json", report.json, "as one JSON object");
  command->add_flag("--markdown", report.markdown, "as tables of Markdown")->excludes(json);
  return command;
}
int run_report(ReportCommand& report) {
  using piper::tools::TableForm;
  if (report.json) report.options.form = TableForm::kJson;
  if (report.markdown) report.options.form = TableForm::kMarkdown;
  return print(piper::tools::report_lines(report.directory, report.profile, report.options));
}

struct TuneCommand {
  std::string directory;
  piper::tools::TuneOptions options;
};
CLI::App* add_tune(CLI::App& app, TuneCommand& tune) {
  piper::tools::TuneOptions& options = tune.options;
  auto* const command = app.add_subcommand(
      "tune", "write a faster strategy: moves passes, buckets, prefetch and recomputation (calls piperc --tune)");
  command->add_option("DIR", tune.directory, "plan bundle of the strategy to start from")->required();
  command->add_option("--target", options.target, "the machine that plans are priced for: strategies/targets/*.yaml")
      ->required();
  command->add_option("--limit", options.limit, "bytes per rank; default: the machine's memory")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::PositiveNumber);
  command->add_option("--model", options.model, "the model's file; default: the one that DIR names, in this folder");
  command->add_option("--strategy", options.strategy, "the strategy's file; default: the one that DIR names");
  command->add_option("--set", options.sets, "KEY=VALUE, as piperc had them")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command->add_option("--kernel-times", options.kernel_times, "times measured by piper-run --calibrate");
  command->add_option("--candidates", options.candidates, "strategies that are compiled at most; default: 300")
      ->check(CLI::PositiveNumber);
  command->add_flag("--checkpoints", options.checkpoints, "runs will save checkpoints, as piperc --checkpoints");
  command->add_option("-o,--output", options.output,
                      "the strategy file that is written; default: NAME.tuned.yaml in this folder");
  return command;
}
int run_tune(const TuneCommand& tune) {
  const auto words = piper::tools::tune_command(tune.directory, tune.options);
  if (!words.ok()) return print(piper::Result<std::string>(words.status()));
  return print(piper::Result<std::string>(piper::tools::run_instead(*words)));
}

int run(int argc, char** argv) {
  CLI::App app("Looks at plan bundles: what will run, why, how long, and the proof that it can", "piper-plan");
  app.require_subcommand(1);
  std::string directory, other;
  int64_t lines = 20;
  bool exit_code = false;
  piper::tools::VerifyOptions proof;
  piper::tools::ShowOptions shown;
  piper::tools::ExplainOptions explained;
  Costs costs;
  std::string profile;
  piper::tools::Link link;
  piper::tools::PriceOptions priced;

  auto* const verify = app.add_subcommand(
      "verify", "prove that the plans match, end, race nowhere and sum every sample once, or tell what refutes it");
  auto* const show = app.add_subcommand("show", "the schedule as a picture, ranks, memory, streams");
  auto* const diff = app.add_subcommand("diff", "what differs between two bundles, by rank and line");
  auto* const simulate =
      app.add_subcommand("simulate", "step time with unit costs, with those that a run measured, or on a machine");
  auto* const explain = app.add_subcommand("explain", "where instructions come from, who writes a buffer");
  for (auto* const command : {verify, show, diff, simulate, explain})
    command->add_option("DIR", directory, "plan bundle")->required();
  verify->add_flag("--verbose", proof.verbose, "how long each part of the proof took, and how much it looked at");
  show->add_option("--columns", shown.columns, "width of the picture, 0 = all")->check(CLI::NonNegativeNumber);
  show->add_flag("--all", shown.all, "every row of the picture and every stream");
  std::string colour = "auto", svg, html;
  show->add_option("--color", colour, "of the picture: always, never, auto (on a terminal, unless NO_COLOR is set)")
      ->check(CLI::IsMember({"always", "never", "auto"}))
      ->capture_default_str();
  show->add_option("--svg", svg, "write the picture to this file instead, as SVG");
  auto* const page = show->add_option(
      "--html", html, "write the step to this file instead, as a page: time line, messages, memory, dependences");
  show->add_option("--profile", profile, "times measured by piper-run --profile, drawn below the others")->needs(page);
  add_costs(show, shown.costs);
  add_costs(simulate, costs);
  auto* const measured = simulate->add_option("--profile", profile, "times measured by piper-run --profile");
  measured->excludes("--forward")->excludes("--backward");
  auto* const latency = simulate->add_option("--latency-us", link.latency_us, "of every message between ranks")
                            ->check(CLI::NonNegativeNumber);
  auto* const rate =
      simulate->add_option("--bytes-per-second", link.bytes_per_second, "of every link")->check(CLI::NonNegativeNumber);
  auto* const target = simulate->add_option("--target", priced.target, "price for a machine: strategies/targets/*.yaml")
                           ->excludes(measured)
                           ->excludes(latency)
                           ->excludes(rate)
                           ->excludes("--forward")
                           ->excludes("--backward");
  simulate
      ->add_option(
          "--kernel-times", priced.kernel_times,
          "times measured by piper-run --calibrate; without a machine, what piper-run --kernel-times waits for")
      ->excludes(measured)
      ->excludes("--forward")
      ->excludes("--backward");
  simulate->add_flag("--json", priced.json, "as JSON")->needs(target);
  simulate->add_option("--lines", priced.lines, "of the critical path, 0 = all")
      ->check(CLI::NonNegativeNumber)
      ->needs(target);
  std::string trace;
  simulate->add_option("--trace", trace, "also write the step to this file, for https://ui.perfetto.dev")
      ->excludes(target)
      ->excludes("--kernel-times");
  diff->add_option("OTHER", other, "plan bundle to compare with")->required();
  diff->add_flag("--exit-code", exit_code, "exit 1 when they differ");
  bool as_json = false, as_markdown = false;
  auto* const json = diff->add_flag("--json", as_json, "what it means alone, as one JSON object");
  diff->add_flag("--markdown", as_markdown, "what it means alone, as tables")->excludes(json);
  add_costs(diff, costs);
  diff->add_option("--lines", lines, "lines shown per file, 0 = all")->check(CLI::NonNegativeNumber);
  explain->add_option("--rank", explained.rank, "one rank")->check(CLI::NonNegativeNumber);
  ReportCommand reported;
  auto* const report = add_report(app, reported);
  TuneCommand tuned;
  auto* const tune = add_tune(app, tuned);
  auto* const checkpoints = app.add_subcommand("checkpoint", "checkpoints that piper-run has saved");
  checkpoints->require_subcommand(1);
  auto* const list = checkpoints->add_subcommand("ls", "which there are");
  auto* const check = checkpoints->add_subcommand("verify", "whether every byte is what was committed");
  auto* const compare = checkpoints->add_subcommand("diff", "what differs between two; exit 1 when they differ");
  auto* const write = checkpoints->add_subcommand("export", "the weights under the model's own names, for --load");
  for (auto* const command : {list, check, compare, write})
    command->add_option("DIR", directory, "folder of checkpoints, or of one")->required();
  compare->add_option("OTHER", other, "that to compare with")->required();
  auto* const hang = app.add_subcommand("whyhang", "who keeps a run from going on, by the rings of its ranks");
  hang->add_option("DIR", directory, "plan bundle")->required();
  std::vector<std::string> rings;
  hang->add_option("RINGS", rings,
                   "folders of rings: of piper-run --rings, or what piper-launch has kept, on each node")
      ->required();
  int64_t events = 0;
  hang->add_option("--events", events, "show so many of the last events of every thread")
      ->check(CLI::NonNegativeNumber);
  piper::tools::ExportOptions exported;
  write->add_option("--step", exported.step, "its step; default: the newest valid one")->check(CLI::NonNegativeNumber);
  write->add_option("-o,--output", exported.out, "the .safetensors file to write, or the folder with --max-shard-size")
      ->required();
  write
      ->add_option("--max-shard-size", exported.max_shard_bytes,
                   "write files of at most so many bytes and an index, as Hugging Face does: 5GB, 500MB")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::PositiveNumber);
  auto* const bisect = app.add_subcommand(
      "bisect", "the first value in which two runs differ, by what piper-run --digest wrote; exit 1 when they differ");
  double tolerance = 0;
  bisect->add_option("A", directory, "digests of one run: a file, or a folder of files")->required();
  bisect->add_option("B", other, "those of the other")->required();
  bisect->add_option("--tolerance", tolerance, "relative difference of values that count as equal, as 1e-5")
      ->check(CLI::Range(0.0, 1.0));
  auto* const instruction =
      explain->add_option("--instruction", explained.instruction, "its position in the rank's list, from 0")
          ->check(CLI::NonNegativeNumber);
  explain->add_option("--buffer", explained.buffer, "a buffer's name")->excludes(instruction);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if ((*latency || *rate) && profile.empty() && priced.kernel_times.empty()) {
    std::fprintf(stderr, "piper-plan: links of a delay need times: --profile or --kernel-times\n");
    return 2;
  }
  if (*report) return run_report(reported);
  if (*tune) return run_tune(tuned);
  if (*verify) return print(piper::tools::verify_bundle(directory, proof));
  if (*show && !html.empty()) return write_picture(html, piper::tools::draw_html(directory, {shown.costs, profile}));
  if (*show && !svg.empty()) return write_picture(svg, piper::tools::draw_svg(directory, shown.costs));
  shown.colour = in_colour(colour);
  if (*show) return print(piper::tools::show(directory, shown));
  if (*list) return print(piper::tools::list_checkpoints(directory));
  if (*check) return print(piper::tools::verify_checkpoints(directory));
  if (*compare) return print_diff(piper::tools::diff_checkpoints(directory, other), true);
  if (*write) return print(piper::tools::export_checkpoint(directory, exported));
  if (*bisect) return print_diff(piper::tools::bisect(directory, other, tolerance), true);
  if (*hang) return print(piper::tools::why_hang(directory, rings, events));
  using piper::tools::TableForm;
  const auto meaning = [&](TableForm form) { return piper::tools::diff_steps(directory, other, form, costs); };
  if (*diff && (as_json || as_markdown))
    return print_diff(meaning(as_json ? TableForm::kJson : TableForm::kMarkdown), exit_code);
  // Plans that cannot be played have no figures, but lines.
  if (*diff)
    if (const auto told = meaning(TableForm::kText); told.ok() && told->differs) std::puts(told->text.c_str());
  if (*diff) return print_diff(piper::tools::diff(directory, other, lines), exit_code);
  if (*simulate && !priced.target.empty()) return print(piper::tools::price(directory, priced));
  if (*simulate && !trace.empty())
    if (const int status = write_picture(trace, piper::tools::trace_bundle(directory, costs, profile, link));
        status != 0)
      return status;
  if (*simulate && !priced.kernel_times.empty())
    return print(piper::tools::simulate_by_table(directory, priced.kernel_times, link));
  if (*simulate && !profile.empty()) return print(piper::tools::simulate_measured(directory, profile, link));
  if (*simulate) return print(piper::tools::simulate_bundle(directory, costs));
  return print(piper::tools::explain(directory, explained));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bug in piper-plan: %s\n", error.what());
    return 70;
  }
}
