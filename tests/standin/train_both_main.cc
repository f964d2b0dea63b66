// Trains a bundle on the CPU and on the stand-in's GPU without graphs and with them, and compares what each saves, byte
// by byte:
//   train_both BUNDLE DATA STEPS FOLDER [--show-uncaptured]
// --show-uncaptured: says what keeps a rank's step from being a single graph.
#include <cstdio>
#include <cstring>
#include <mutex>

#include "runtime/exec/instruction_text.h"
#include "runtime/kernels/kernel.h"
#include "schemas/plan/bundle_io.h"
#include "tests/standin/train.h"

namespace piper::standin {
namespace {

constexpr On kAll[] = {On::kCpu, On::kGpu, On::kGraphs};
const char* prefix(On on) { return on == On::kCpu ? "/cpu." : on == On::kGpu ? "/gpu." : "/graphs."; }

// Of a rank's steps, on the rank's thread.
Watch show_uncaptured(const plan::Bundle& bundle, const plan::RankPlan& plan) {
  return {{}, [&](const hal::Recording& recording) {
            static std::mutex mutex;
            std::lock_guard lock(mutex);
            for (const hal::Uncaptured& command : recording.uncaptured())
              std::printf("rank %d, %s: it cannot be part of a graph: %s\n", plan.rank,
                          exec::describe_instruction(bundle, plan, command.instruction).c_str(), command.reason);
          }};
}

// What is wrong.
Status compare(const std::string& bundle_folder, const std::string& data_file, int64_t steps, const std::string& out,
               bool uncaptured) {
  PIPER_ASSIGN(const plan::OpenBundle opened, plan::open_bundle(bundle_folder));
  PIPER_ASSIGN(const plan::Bundle bundle, plan::read_bundle(opened, {}));
  PIPER_ASSIGN(const auto weights, checkpoint::WeightSource::open(opened.directory, "", bundle.manifest));
  data::DataOptions options;
  options.path = data_file;
  PIPER_ASSIGN(const auto data, data::DataSource::open(options, bundle.manifest));
  const auto folder = [&](On on) { return out + prefix(on); };
  for (const On on : kAll) {
    Training training{&bundle, &weights, data.get(), steps, folder(on) + "weights", folder(on) + "gradients", "", {}};
    if (uncaptured && on == On::kGraphs)
      training.watch = [&](const plan::RankPlan& plan) { return show_uncaptured(bundle, plan); };
    PIPER_RETURN_IF_ERROR(train(training, on).with_context(prefix(on) + 1));
  }
  for (const On on : {On::kGpu, On::kGraphs})
    for (const char* what : {"weights", "gradients"})
      if (contents(folder(On::kCpu) + what) != contents(folder(on) + what))
        return Status::failure("", std::string(prefix(on) + 1) + what + " differ from the CPU's");
  return {};
}

}  // namespace
}  // namespace piper::standin

int main(int argc, char** argv) {
  const bool uncaptured = argc == 6 && std::strcmp(argv[5], "--show-uncaptured") == 0;
  if (argc != 5 && !uncaptured) {
    std::fprintf(stderr, "usage: train_both BUNDLE DATA STEPS FOLDER [--show-uncaptured]\n");
    return 2;
  }
  piper::kernels::initialise_process();
  const piper::Status status = piper::standin::compare(argv[1], argv[2], std::atoll(argv[3]), argv[4], uncaptured);
  if (!status.ok()) std::fprintf(stderr, "%s %s\n", status.error().code.c_str(), status.error().message.c_str());
  return status.ok() ? 0 : 1;
}
