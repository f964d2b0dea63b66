#include "runtime/program/flags.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <chrono>
#include <limits>
#include <thread>

#include "runtime/bootstrap/rank_environment.h"
#include "runtime/program/draw_weights.h"
#include "runtime/program/exit_status.h"
#include "schemas/command_line/command_line.h"

namespace piper::program {
namespace {

constexpr double kLongestWaitS = 1e9;

// Arguments that are read further once they are known to be well formed.
struct Texts {
  std::optional<std::string> resume;
  std::string link_delay, digest_steps, trace_steps;
};

// "12" or "10..20".
std::optional<std::pair<int64_t, int64_t>> parse_steps(const std::string& text) {
  int64_t first = 0;
  const char* const end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, first);
  if (read.ec != std::errc() || first < 1) return std::nullopt;
  if (read.ptr == end) return std::pair{first, first};
  constexpr std::string_view kTo = "..";
  if (text.compare(static_cast<size_t>(read.ptr - text.data()), kTo.size(), kTo) != 0) return std::nullopt;
  int64_t last = 0;
  read = std::from_chars(read.ptr + kTo.size(), end, last);
  if (read.ec != std::errc() || read.ptr != end || last < first) return std::nullopt;
  return std::pair{first, last};
}

std::optional<hal::LinkDelay> parse_link_delay(const std::string& text) {
  int64_t latency_us = 0, bytes_per_second = 0;
  const char* const end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, latency_us);
  if (read.ec != std::errc() || latency_us < 0) return std::nullopt;
  if (read.ptr != end) {
    if (*read.ptr != ',') return std::nullopt;
    read = std::from_chars(read.ptr + 1, end, bytes_per_second);
    if (read.ec != std::errc() || read.ptr != end || bytes_per_second <= 0) return std::nullopt;
  }
  if (latency_us > 3'600'000'000) return std::nullopt;  // an hour is a mistake
  return hal::LinkDelay{std::chrono::microseconds(latency_us), bytes_per_second};
}

std::optional<int64_t> exact_step(const std::string& text) {
  constexpr std::string_view kExact = "exact:";
  if (text.compare(0, kExact.size(), kExact) != 0) return std::nullopt;
  int64_t step = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + kExact.size(), end, step);
  if (read.ec != std::errc() || read.ptr != end || step < 0) return std::nullopt;
  return step;
}

// CLI11's own check answers with the largest double, digit by digit, and its conversion takes the largest number for
// what is larger.
template <class Number = int64_t>
const CLI::Validator& whole_number() {
  static const CLI::Validator check(
      [](std::string& text) {
        Number value = 0;
        const char* const end = text.data() + text.size();
        const auto read = std::from_chars(text.data(), end, value);
        if (read.ec == std::errc() && read.ptr == end && text[0] != '-') return std::string();
        const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
        return "'" + text + "' is not a whole number " +
               (digits ? "of at most " + std::to_string(std::numeric_limits<Number>::max()) : "of at least 0");
      },
      "NONNEGATIVE");
  return check;
}

// For whole numbers with an upper bound; the message names both ends.
CLI::Validator between(int least, int most) {
  return CLI::Validator(
      [=](std::string& text) {
        int value = 0;
        const char* const end = text.data() + text.size();
        const auto read = std::from_chars(text.data(), end, value);
        const bool fits = read.ec == std::errc() && read.ptr == end && value >= least && value <= most;
        return fits ? std::string()
                    : "'" + text + "' is not a whole number from " + std::to_string(least) + " to " +
                          std::to_string(most);
      },
      "POSITIVE");
}

CLI::Validator time_in(const char* unit, const char* type) {
  return CLI::Validator(
      [unit](std::string& text) {
        double value = 0;
        const char* const end = text.data() + text.size();
        const auto read = std::from_chars(text.data(), end, value);
        const bool fits = read.ec == std::errc() && read.ptr == end && value > 0 && value <= kLongestWaitS;
        return fits ? std::string()
                    : "'" + text + "' is not a number of " + unit + " above 0 and up to " +
                          std::to_string(static_cast<int64_t>(kLongestWaitS));
      },
      type);
}

// A text that `fits`, else what is wrong with it.
template <class Fits>
CLI::Validator well_formed(const Fits& fits, const char* wrong, const char* type) {
  return CLI::Validator(
      [fits, wrong](std::string& text) { return fits(text) ? std::string() : "'" + text + "' is " + wrong; }, type);
}

void declare_training(CLI::App& app, Flags& flags) {
  app.add_option("bundle", flags.bundle, "directory of the plan bundle")->required();
  app.add_option(
      "--data", flags.data,
      "tensors (safetensors, or a folder of .npy), tokens (.bin, .npy, Megatron's .bin and .idx) or text, or a folder "
      "of such files");
  app.add_option("--steps", flags.steps, "number of steps; default: the strategy's, else one pass over the data")
      ->check(whole_number());
  app.add_option("--sampling", flags.sampling,
                 "order of the samples; default: the strategy's, else sequential for tensors, and shuffled for tokens "
                 "and for a mix")
      ->check(CLI::IsMember({"sequential", "shuffled"}));
  app.add_option("--seed", flags.seed, "seed of sampling and dropout")->check(whole_number<uint64_t>());
  app.add_option("--token-dtype", flags.token_dtype,
                 "tokens of a raw file; default u16, u32 for *.u32.bin, u8 for text")
      ->check(CLI::IsMember({"u8", "u16", "u32", "i32"}));
  auto* const load = app.add_option(
      "--load", flags.load, "start from the weights of this .safetensors file, or folder of such files with an index");
  auto* const adapters =
      app.add_option("--adapters", flags.adapters,
                     "a .safetensors file over that of --load, or over the bundle's own weights: what a run with "
                     "--trained-only has saved");
  app.add_option("--init", flags.init,
                 "normal:DEVIATION: start from parameters drawn by --seed, where a model was exported without weights")
      ->check(well_formed(parse_init, "no rule for parameters: write normal:0.02", "normal:DEVIATION"))
      ->excludes(load)
      ->excludes(adapters);
  app.add_option("--missing", flags.missing,
                 "GLOB: tensors that may be missing in the file of --load; they start with the values of the compiled "
                 "model, and the run lists their names; the option may be repeated")
      ->expected(1)
      ->take_all()
      ->needs(load);
  app.add_option("--save", flags.save, "write the weights after the last step to this .safetensors file");
  app.add_flag("--trained-only", flags.trained_only,
               "--save and --save-best write only what steps change, without frozen parameters: adapters");
  app.add_flag("--stop-on-nan,!--no-stop-on-nan", flags.stop_on_nan,
               "end the run where the loss, the norm of the gradients or a state to be saved is not finite; on by "
               "default");
  app.add_option("--check-replicas", flags.check_replicas,
                 "compare replicas of the parameters after every so many steps, and end where they differ; 0: never")
      ->check(whole_number());
}

void declare_evaluation(CLI::App& app, Flags& flags) {
  app.add_option("--eval-data", flags.eval_data, "evaluate on this data, of any form of --data");
  app.add_option("--eval-every", flags.eval_every,
                 "steps from one evaluation to the next, 0: only after the last step; default: the strategy's")
      ->check(whole_number());
  app.add_option("--eval-batches", flags.eval_batches,
                 "batches of an evaluation, 0: as many as the data fill; default: the strategy's")
      ->check(whole_number());
  app.add_flag("--eval-only", flags.eval_only, "evaluate once, without training")
      ->excludes("--eval-every")
      ->excludes("--steps")
      ->excludes("--check-replicas");
  app.add_option("--save-best", flags.save_best,
                 "write the weights of the evaluation with the smallest loss to this .safetensors file");
}

void declare_checkpoints(CLI::App& app, Flags& flags, Texts& texts) {
  auto* const folder = app.add_option("--checkpoint", flags.checkpoints,
                                      "save checkpoints to this folder: after the last step, and by --every");
  // What is asked of training is not there without it.
  app.add_option("--every", flags.every, "steps from one checkpoint to the next")
      ->check(whole_number())
      ->needs(folder)
      ->excludes("--eval-only");
  app.add_option("--every-minutes", flags.every_minutes, "minutes from one checkpoint to the next")
      ->check(time_in("minutes", "MINUTES"))
      ->needs(folder)
      ->excludes("--eval-only");
  app.add_option("--keep", flags.keep, "checkpoints that are kept, 0: all; default 3")
      ->check(whole_number())
      ->needs(folder);
  app.add_option("--grace", flags.grace_s,
                 "seconds that a run has after SIGTERM to save a checkpoint and end; default 30")
      ->check(between(1, 1000000))
      ->needs(folder);
  app.add_option("--resume", texts.resume,
                 "continue from the newest valid checkpoint, or with exact:STEP only from that of step STEP")
      ->expected(0, 1)
      ->default_str("latest-valid")
      ->check(well_formed([](const std::string& text) { return text == "latest-valid" || exact_step(text); },
                          "neither latest-valid nor exact:STEP, as in exact:1200", "latest-valid|exact:STEP"))
      ->needs(folder);
  app.add_flag("--new-data", flags.new_data,
               "continue with other data than those of the checkpoint, or with another mix or order of them")
      ->needs("--resume");
}

void declare_ranks(CLI::App& app, Flags& flags, Texts& texts) {
  app.add_option("--comm", flags.comm,
                 "communicator; default: local for one process, mpi or ucx under a launcher, nccl for --device cuda")
      ->check(CLI::IsMember({"local", "mpi", "ucx", "nccl"}));
  app.add_option("--device", flags.device, "device of the ranks")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--threads", flags.threads, "threads per rank; default: usable cores / ranks, at most OMP_NUM_THREADS")
      ->check(between(1, 1024));
  app.add_option("--timeout", flags.timeout_s,
                 "seconds that a stream may wait before the run ends with an error; default 300")
      ->check(time_in("seconds", "SECONDS"));
  app.add_option(
         "--link-delay", texts.link_delay,
         "MICROSECONDS[,BYTES_PER_SECOND]: make every message between ranks that much later, and the messages of a "
         "rank share a port of that rate each way, for benchmarks")
      ->check(well_formed(parse_link_delay, "not microseconds, or microseconds,bytes per second: 500 or 500,1000000000",
                          "MICROSECONDS[,BYTES_PER_SECOND]"));
  app.add_option("--huge-pages", flags.huge_pages, "back the ranks' memory with huge pages")
      ->check(CLI::IsMember({"on", "off"}));
}

// What a run writes about itself; much of it excludes much else.
void declare_records(CLI::App& app, Flags& flags, Texts& texts) {
  const CLI::Validator steps =
      well_formed(parse_steps, "neither a step nor a range of steps: 12 or 10..20", "STEP|FIRST..LAST");
  app.add_option("--log", flags.log, "write one JSON object a step to this file");
  app.add_option("--tensorboard", flags.tensorboard, "write an event file for TensorBoard to this folder");
  app.add_option("--peak-flops", flags.peak_flops,
                 "FLOP/s that the device of a rank can do at most, e.g. 989.4e12: the log says what part of it the "
                 "model's products use (MFU)")
      ->check(CLI::PositiveNumber);
  app.add_option("--rings", flags.rings,
                 "keep what every rank ran last in a file of this folder, for piper-plan whyhang; default: in memory");
  auto* const gradients =
      app.add_option("--save-gradients", flags.save_gradients,
                     "write the gradients of the first step that the run does to this .safetensors file");
  auto* const profile = app.add_option(
      "--profile", flags.profile, "write the mean times of every instruction to this file, one JSON object a line");
  auto* const digest = app.add_option(
      "--digest", flags.digest,
      "write digests of all values of the steps to this file, for piper-plan bisect; calls run one by one");
  digest->excludes(profile)->excludes(gradients);
  for (CLI::Option* const of_training : {gradients, profile, digest}) of_training->excludes("--eval-only");
  app.add_option("--digest-steps", texts.digest_steps, "only digests of these steps")->check(steps)->needs(digest);
  app.add_option("--calibrate", flags.calibrate,
                 "write the median time of every distinct kernel call to this file, for piper-plan simulate "
                 "--kernel-times; calls run one by one")
      ->excludes(profile)
      ->excludes(digest)
      ->excludes(gradients)
      ->excludes("--eval-only");
  app.add_option(
         "--kernel-times", flags.kernel_times,
         "wait instead of computing: each kernel call as long as this file of --calibrate says, to compare a run of "
         "many ranks with piper-plan simulate; trains nothing; on CPU ranks")
      ->excludes("--calibrate")
      ->excludes(digest)
      ->excludes(gradients)
      ->excludes("--checkpoint")
      ->excludes("--save")
      ->excludes("--save-best");
  auto* const trace =
      app.add_option("--trace", flags.trace, "write steps as they were to this file, for https://ui.perfetto.dev");
  trace->excludes(digest)->excludes("--calibrate")->excludes("--eval-only");
  app.add_option("--trace-steps", texts.trace_steps, "these steps; default 4..6")->check(steps)->needs(trace);
  // Times are taken between the instructions of a step, which a graph does not have.
  app.add_flag("--cuda-graph", flags.cuda_graph,
               "with --device cuda: capture the first step as a CUDA graph, and launch this graph in all later steps; "
               "if parts of a step cannot be captured, there are several graphs, and the run says why")
      ->excludes(profile)
      ->excludes(trace);
}

}  // namespace

std::optional<int> read_flags(int argc, const char* const* argv, Flags& flags) {
  CLI::App app{"Executes a plan bundle written by piperc.", "piper-run"};
  Texts texts;
  declare_training(app, flags);
  declare_evaluation(app, flags);
  declare_checkpoints(app, flags, texts);
  declare_ranks(app, flags, texts);
  declare_records(app, flags, texts);
  command_line::add_version(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // For several ranks one speaks, and the others stay until it has: a launcher ends all when the first one exits.
    const auto environment = bootstrap::read_rank_environment(bootstrap::process_variable);
    if (!environment.ok() || environment->rank == 0) return command_line::end(app, error, kCommandLine);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return error.get_exit_code() == 0 ? kDone : kCommandLine;
  }
  if (!texts.link_delay.empty()) flags.link_delay = parse_link_delay(texts.link_delay);
  if (!texts.digest_steps.empty()) flags.digest_steps = *parse_steps(texts.digest_steps);
  if (!texts.trace_steps.empty()) flags.trace_steps = *parse_steps(texts.trace_steps);
  flags.resume = texts.resume.has_value();
  if (flags.resume) flags.exact = exact_step(*texts.resume).value_or(-1);
  return std::nullopt;
}

}  // namespace piper::program
