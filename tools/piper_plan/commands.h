// The commands of piper-plan, each in a file of its own: text for standard output, or a failure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/timeline/timeline.h"
#include "tools/piper_plan/play_bundle.h"

namespace piper::tools {

using timeline::Costs;
using timeline::Link;

struct ShowOptions {
  int64_t columns = 160;  // of the schedule's picture; 0 = all
  bool all = false;       // every row of the picture and every stream
  bool colour = false;    // of the picture, by the terminal's escape sequences
  bool json = false;      // the bundle's figures, without a picture
  Costs costs;
};
Result<std::string> show(const std::string& directory, const ShowOptions& options);
// The schedule with unit costs as an SVG file: a row for ranks that do the same.
Result<std::string> draw_svg(const std::string& directory, const Costs& costs);
// The step as a page that works without a network: time line by rank and stream, messages, memory, dependences.
// With a profile, measured times are drawn below those that the plan would take with them.
Result<std::string> draw_html(const std::string& directory, const StepTimes& times);

struct Difference {
  std::string text;
  bool differs = false;
};

struct VerifyOptions {
  bool verbose = false;  // how long each part of the proof took, and how much it looked at
};
// JSON as schemas/piper_plan.schema.json says; so is that of the others.
Result<Difference> verify_as_json(const std::string& directory);
Result<std::string> verify_bundle(const std::string& directory, const VerifyOptions& options = {});

Result<std::string> simulate_bundle(const std::string& directory, const Costs& costs, bool json = false);
// With the times of a profile (piper-run --profile).
Result<std::string> simulate_measured(const std::string& directory, const std::string& profile, const Link& link,
                                      bool json = false);
// As `piper-run --kernel-times --link-delay` runs it.
Result<std::string> simulate_by_table(const std::string& directory, const std::string& kernel_times, const Link& link,
                                      bool json = false);
// The simulated step as the bytes of a Perfetto trace; with a profile, the run's own times beside it.
Result<std::string> trace_bundle(const std::string& directory, const StepTimes& times);

struct PriceOptions {
  std::string target;        // the file of a machine, as in strategies/targets/
  std::string kernel_times;  // a file of `piper-run --calibrate`, or ""
  bool json = false;
  int64_t lines = 10;  // of the critical path; 0: all
};
// Time, memory and what limits them on a machine that is described, not used. Reading the description prints its
// diagnostics to standard error.
Result<std::string> price(const std::string& directory, const PriceOptions& options);

enum class TableForm : uint8_t { kText, kMarkdown, kJson };

struct ReportOptions {
  Costs costs;               // of the predicted step, where there is no target
  std::string target;        // the file of a machine that it is priced for, or ""
  std::string kernel_times;  // a file of `piper-run --calibrate`, or ""
  std::string log;           // of the same run (`piper-run --log`), for its peak memory; or ""
  TableForm form = TableForm::kText;
};
// What each line of the strategy costs, predicted and as `piper-run --profile` measured it (report.h).
Result<std::string> report_lines(const std::string& directory, const std::string& profile,
                                 const ReportOptions& options);

struct TuneOptions {
  std::string model, strategy;  // "": those that the bundle names, in this folder
  std::string target;           // the file of a machine
  std::string kernel_times;     // a file of `piper-run --calibrate`, or ""
  std::string profile;          // a file of `piper-run --profile` of this bundle, or ""
  std::string output;           // "": the strategy's name with ".tuned.yaml", in this folder
  std::vector<std::string> sets;
  int64_t limit = 0, candidates = 0;  // 0: the machine's memory; piperc's own number
  bool checkpoints = false;
};
// The words of the piperc that tunes the strategy of a bundle, for the same device: strategies are compiled there, and
// this program knows plans alone. Fails where the bundle was not made from this strategy.
Result<std::vector<std::string>> tune_command(const std::string& directory, const TuneOptions& options);
// piperc beside this program; its name alone where this one's path is not known.
std::string compiler();

struct FitsOptions {
  std::string strategy, target;  // "": piperc's own plain strategy; the file of a machine
  int64_t nodes = 0, ranks = 0;  // 0: not said
  int64_t limit = 0;             // bytes a rank; 0: the machine's memory
  int64_t budget_s = 0;          // 0: none
  std::vector<std::string> sets, fixed;
};
// The words of the piperc that says whether a model fits on machines, and how.
std::vector<std::string> fits_command(const std::string& model, const FitsOptions& options);
// Becomes that program. Returns where it cannot be started.
Status run_instead(const std::vector<std::string>& words);

// `lines`: shown per file at most; 0 = all.
Result<Difference> diff(const std::string& a, const std::string& b, int64_t lines);
struct DiffOptions {
  TableForm form = TableForm::kText;
  std::optional<Costs> units;           // of passes; nothing: by the products that they do
  std::string target, kernel_times;     // files of a machine and of `piper-run --calibrate`; "": none
  std::vector<std::string> strategies;  // the two files; none: those that are found by the bundles' names
};
// What the difference means: what was changed in the strategy, figures of the step, instructions by line of the
// strategy. P0631 where the messages of one do not match.
Result<Difference> diff_steps(const std::string& a, const std::string& b, const DiffOptions& options);

// Where two runs begin to differ, by their files of `piper-run --digest`, or folders of such files. `tolerance`: how
// much of the largest magnitude two values may differ by, 0: digests are compared. R0812, R0813.
Result<Difference> bisect(const std::string& a, const std::string& b, double tolerance);

struct ExplainOptions {
  int32_t rank = -1;  // -1: all
  int64_t instruction = -1;
  std::string buffer;
  bool json = false;
};
Result<std::string> explain(const std::string& directory, const ExplainOptions& options);

// For checkpoints: `path` is a folder of them, or the folder of one.
// A line each; `differs` where one of them is damaged.
Result<Difference> list_checkpoints(const std::string& path, bool json = false);
// R0705: those that are damaged, a line each. As JSON they are an answer, with `differs`.
Result<std::string> verify_checkpoints(const std::string& path);
Result<Difference> verify_checkpoints_as_json(const std::string& path);
Result<Difference> diff_checkpoints(const std::string& a, const std::string& b, bool json = false);
struct ExportOptions {
  int64_t step = -1;            // -1: the newest valid one
  std::string out;              // a file; with max_shard_bytes a folder
  int64_t max_shard_bytes = 0;  // 0: all in one file
  std::string dtype;            // of floating-point tensors: "f32", "bf16", "f16"; "": as they are stored
};
// The weights of a step under the model's own names. P0621.
Result<std::string> export_checkpoint(const std::string& path, const ExportOptions& options);

// Who keeps a run from going on, by the rings of its ranks, in a folder or in one of each node; `events`: of each
// thread that are shown, 0: none. R0911.
Result<std::string> why_hang(const std::string& directory, const std::vector<std::string>& rings, int64_t events);

}  // namespace piper::tools
