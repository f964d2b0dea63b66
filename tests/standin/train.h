// Trains a bundle's ranks as threads of this process, on the CPU or on the stand-in's GPU.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "runtime/checkpoint/weights.h"
#include "runtime/data/data_source.h"
#include "schemas/base/status.h"
#include "schemas/plan/plan.h"
#include "tests/standin/standin_backend.h"

namespace piper::standin {

enum class On : uint8_t { kCpu, kGpu, kGraphs };  // the GPU without graphs, and with them

struct Training {
  const plan::Bundle* bundle = nullptr;
  const checkpoint::WeightSource* weights = nullptr;
  const data::DataSource* data = nullptr;
  int64_t steps = 1;
  std::string save, save_gradients, log;    // files
  GpuOptions gpu;                           // all but its graphs
  std::chrono::milliseconds timeout{5000};  // of a wait for another rank, or for the device
};
// The first failure of a rank, or "race" where operations of the GPU were not ordered.
Status train(const Training& training, On on);
// Each rank on what `make` makes of its transport, which the control channel uses, too.
using MakeRank = std::function<exec::MakeBackend(hal::Transport&)>;
Status train(const Training& training, const MakeRank& make);
// For the ranks' GPUs where it is one.
GpuOptions gpu_options(const Training& training, On on);
// All bytes of a file that a training saved.
std::string contents(const std::string& path);

}  // namespace piper::standin
