// Trains a bundle on the CPU and on the stand-in's GPU, and compares what both save, byte by byte:
//   train_both BUNDLE DATA STEPS FOLDER
#include <cstdio>

#include "runtime/kernels/kernel.h"
#include "schemas/plan/bundle_io.h"
#include "tests/standin/train.h"

namespace piper::standin {
namespace {

// What is wrong.
Status compare(const std::string& bundle_folder, const std::string& data_file, int64_t steps, const std::string& out) {
  PIPER_ASSIGN(const plan::OpenBundle opened, plan::open_bundle(bundle_folder));
  PIPER_ASSIGN(const plan::Bundle bundle, plan::read_bundle(opened, {}));
  PIPER_ASSIGN(const auto weights, checkpoint::WeightSource::open(opened.directory, "", bundle.manifest));
  data::DataOptions options;
  options.path = data_file;
  PIPER_ASSIGN(const auto data, data::DataSource::open(options, bundle.manifest));
  const auto folder = [&](On on) { return out + (on == On::kCpu ? "/cpu." : "/gpu."); };
  for (const On on : {On::kCpu, On::kGpu}) {
    Training training{&bundle, &weights, data.get(), steps, folder(on) + "weights", folder(on) + "gradients", ""};
    PIPER_RETURN_IF_ERROR(train(training, on));
  }
  for (const char* what : {"weights", "gradients"})
    if (contents(folder(On::kCpu) + what) != contents(folder(On::kGpu) + what))
      return Status::failure("", std::string(what) + " differ");
  return {};
}

}  // namespace
}  // namespace piper::standin

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: train_both BUNDLE DATA STEPS FOLDER\n");
    return 2;
  }
  piper::kernels::initialise_process();
  const piper::Status status = piper::standin::compare(argv[1], argv[2], std::atoll(argv[3]), argv[4]);
  if (!status.ok()) std::fprintf(stderr, "%s %s\n", status.error().code.c_str(), status.error().message.c_str());
  return status.ok() ? 0 : 1;
}
