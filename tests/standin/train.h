// Trains a bundle's ranks as threads of this process, on the CPU or on the stand-in's GPU.
#pragma once

#include <string>

#include "runtime/checkpoint/weights.h"
#include "runtime/data/data_source.h"
#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::standin {

enum class On : uint8_t { kCpu, kGpu };

struct Training {
  const plan::Bundle* bundle = nullptr;
  const checkpoint::WeightSource* weights = nullptr;
  const data::DataSource* data = nullptr;
  int64_t steps = 1;
  std::string save, save_gradients, log;  // files
};
// The first failure of a rank.
Status train(const Training& training, On on);
// All bytes of a file that a training saved.
std::string contents(const std::string& path);

}  // namespace piper::standin
