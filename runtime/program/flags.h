// The command line of piper-run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/hal/link_delay.h"

namespace piper::program {

struct Flags {
  std::string bundle, data, sampling, token_dtype, load, init, comm, device = "cpu", huge_pages = "on";
  std::string eval_data, save_best;
  std::string adapters;              // a file over `load`, or over the bundle's weights
  std::vector<std::string> missing;  // globs over what `load` may lack
  bool trained_only = false;         // in what `save` and `save_best` write
  std::optional<int64_t> eval_every, eval_batches;
  bool eval_only = false;
  std::string log, tensorboard, rings, save, save_gradients, profile, calibrate, kernel_times, checkpoints, digest;
  std::string trace;
  std::pair<int64_t, int64_t> digest_steps{1, INT64_MAX};  // the first and the last one
  std::pair<int64_t, int64_t> trace_steps{4, 6};           // memory and threads are warm then
  std::optional<hal::LinkDelay> link_delay;
  bool resume = false, new_data = false;
  int64_t exact = -1;  // the step to resume from; -1: the newest valid checkpoint
  int64_t every = 0, keep = 3;
  double every_minutes = 0;
  double peak_flops = 0;  // 0: not known
  std::optional<int64_t> steps;
  std::optional<uint64_t> seed;
  bool cuda_graph = false, stop_on_nan = true;
  int64_t check_replicas = 0;
  int threads = 0, grace_s = 30;
  double timeout_s = 300;
};

// An exit status where the process ends here: help was asked for, or the command line is wrong, which has been said.
std::optional<int> read_flags(int argc, const char* const* argv, Flags& flags);

}  // namespace piper::program
