// Trains a bundle on the CPU and on the stand-in's GPUs without graphs and with them, and compares what each saves,
// byte by byte:
//   train_both BUNDLE DATA STEPS FOLDER [--comm local|nccl] [--kernels own] [--show-uncaptured]
// --comm nccl: a GPU for each rank, over the stand-in for NCCL; where NCCL adds as it likes (the bundle's reduction is
// `library`), losses agree to a tolerance instead. Then nothing but a host that reads counts may cut a graph.
// --kernels own: CUDA's own kernels under the shim, where there are some; then losses agree to the tolerance, and with
// graphs and without them there are the same bytes.
// --show-uncaptured: says what keeps a rank's step from being a single graph.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "runtime/exec/instruction_text.h"
#include "runtime/kernels/kernel.h"
#include "schemas/plan/bundle_io.h"
#include "tests/shim/blocks.h"
#include "tests/shim/shim_backend.h"
#include "tests/standin/nccl_backend.h"
#include "tests/standin/train.h"

namespace piper::standin {
namespace {

constexpr On kGpus[] = {On::kGpu, On::kGraphs};
const char* prefix(On on) { return on == On::kCpu ? "/cpu." : on == On::kGpu ? "/gpu." : "/graphs."; }

struct Options {
  std::string bundle, data, folder;
  int64_t steps = 0;
  bool nccl = false, own_kernels = false, show_uncaptured = false;
};

// What cuts the graphs of the ranks' steps.
class Cuts {
 public:
  explicit Cuts(const plan::Bundle& bundle) : bundle_(bundle) {}
  // On the rank's thread.
  Watch of(const plan::RankPlan& plan) {
    return {{}, [&](const hal::Recording& recording) {
              std::lock_guard lock(mutex_);
              for (const hal::Uncaptured& command : recording.uncaptured()) {
                const auto& action = plan.instructions[static_cast<size_t>(command.instruction)].action;
                texts_.push_back("rank " + std::to_string(plan.rank) + ", " +
                                 exec::describe_instruction(bundle_, plan, command.instruction) +
                                 ": it cannot be part of a graph: " + command.reason);
                if (!std::holds_alternative<plan::AllToAll>(action) && unexpected_.empty()) unexpected_ = texts_.back();
              }
            }};
  }
  const std::vector<std::string>& texts() const { return texts_; }
  // The first that is no exchange of rows.
  const std::string& unexpected() const { return unexpected_; }

 private:
  const plan::Bundle& bundle_;
  std::mutex mutex_;
  std::vector<std::string> texts_;
  std::string unexpected_;
};

std::vector<double> losses(const std::string& log) {
  std::vector<double> found;
  constexpr const char* kKey = "\"loss\": ";
  for (size_t at = log.find(kKey); at != std::string::npos; at = log.find(kKey, at + 1))
    found.push_back(std::strtod(log.c_str() + at + std::strlen(kKey), nullptr));
  return found;
}

Status compare_losses(const std::string& cpu_log, const std::string& gpu_log, int64_t steps) {
  const std::vector<double> cpu = losses(cpu_log), gpu = losses(gpu_log);
  if (cpu.size() != gpu.size() || static_cast<int64_t>(cpu.size()) < steps)
    return Status::failure("", std::to_string(cpu.size()) + " and " + std::to_string(gpu.size()) + " losses of " +
                                   std::to_string(steps) + " steps");
  for (size_t step = 0; step < cpu.size(); ++step)
    if (!(std::abs(cpu[step] - gpu[step]) <= 1e-5 * std::abs(cpu[step])))
      return Status::failure("", "losses " + std::to_string(cpu[step]) + " and " + std::to_string(gpu[step]) +
                                     " of step " + std::to_string(step + 1));
  return {};
}

Status compare_saved(const std::string& one, const std::string& other) {
  for (const char* what : {"weights", "gradients"})
    if (contents(one + what) != contents(other + what))
      return Status::failure("", one + what + " and " + other + what + " differ");
  return {};
}

// What is wrong.
Status compare(const Options& options) {
  PIPER_ASSIGN(const plan::OpenBundle opened, plan::open_bundle(options.bundle));
  PIPER_ASSIGN(const plan::Bundle bundle, plan::read_bundle(opened, {}));
  PIPER_ASSIGN(const auto weights, checkpoint::WeightSource::open(opened.directory, "", bundle.manifest));
  data::DataOptions data_options;
  data_options.path = options.data;
  PIPER_ASSIGN(const auto data, data::DataSource::open(data_options, bundle.manifest));
  const plan::Summing summing = bundle.manifest.target.summing;
  const auto folder = [&](On on) { return options.folder + prefix(on); };
  Cuts cuts(bundle);
  for (const On on : {On::kCpu, On::kGpu, On::kGraphs}) {
    Training training{&bundle,
                      &weights,
                      data.get(),
                      options.steps,
                      folder(on) + "weights",
                      folder(on) + "gradients",
                      folder(on) + "log",
                      {}};
    if (on == On::kGraphs) training.gpu.watch = [&](const plan::RankPlan& plan) { return cuts.of(plan); };
    if (options.own_kernels) shim::use_own_kernels(training.gpu);
    Status status = options.nccl ? train_over_nccl(training, on, summing) : train(training, on);
    PIPER_RETURN_IF_ERROR(std::move(status).with_context(prefix(on) + 1));
  }
  if (options.show_uncaptured)
    for (const std::string& text : cuts.texts()) std::printf("%s\n", text.c_str());
  if (options.nccl && !cuts.unexpected().empty()) return Status::failure("", cuts.unexpected());
  if (const std::string failure = shim::take_failure(); !failure.empty()) return Status::failure("", failure);
  const bool by_losses = options.own_kernels || (options.nccl && summing == plan::Summing::kLibrary);
  for (const On on : kGpus) {
    if (!by_losses) PIPER_RETURN_IF_ERROR(compare_saved(folder(On::kCpu), folder(on)));
    Status status = compare_losses(contents(folder(On::kCpu) + "log"), contents(folder(on) + "log"), options.steps);
    PIPER_RETURN_IF_ERROR(std::move(status).with_context(prefix(on) + 1));
  }
  return compare_saved(folder(On::kGpu), folder(On::kGraphs));
}

bool read(int argc, char** argv, Options& options) {
  if (argc < 5) return false;
  options.bundle = argv[1];
  options.data = argv[2];
  options.steps = std::atoll(argv[3]);
  options.folder = argv[4];
  for (int i = 5; i < argc; ++i) {
    const std::string option = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (option == "--show-uncaptured") {
      options.show_uncaptured = true;
    } else if (option == "--comm" && (value == "local" || value == "nccl")) {
      options.nccl = value == "nccl";
      ++i;
    } else if (option == "--kernels" && value == "own") {
      options.own_kernels = true;
      ++i;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace piper::standin

int main(int argc, char** argv) {
  piper::standin::Options options;
  if (!piper::standin::read(argc, argv, options)) {
    std::fprintf(
        stderr, "usage: train_both BUNDLE DATA STEPS FOLDER [--comm local|nccl] [--kernels own] [--show-uncaptured]\n");
    return 2;
  }
  piper::kernels::initialise_process();
  const piper::Status status = piper::standin::compare(options);
  if (!status.ok()) std::fprintf(stderr, "%s %s\n", status.error().code.c_str(), status.error().message.c_str());
  return status.ok() ? 0 : 1;
}
