#include "runtime/program/program.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <thread>

#include "runtime/bootstrap/rendezvous.h"
#include "runtime/bootstrap/threads.h"
#include "runtime/kernels/waiting_library.h"
#include "runtime/program/exit_status.h"
#include "runtime/program/outcome.h"
#include "runtime/program/ranks.h"
#include "runtime/program/ring_dump.h"
#include "runtime/program/signals.h"
#include "schemas/launch/variables.h"
#include "schemas/plan/durable_files.h"
#include "schemas/plan/kernel_times.h"

namespace piper::program {
namespace {

// Ranks that share this machine's cores.
int ranks_here(bootstrap::CommBackend comm, int32_t world_size) {
  const int here = comm == bootstrap::CommBackend::kLocal ? 0 : bootstrap::ranks_of_node(bootstrap::process_variable);
  return here > 0 ? here : world_size;
}

// That of piper-launch, which watches it, unless the user names one.
std::string rings_folder(const Flags& flags) {
  if (!flags.rings.empty()) return flags.rings;
  const auto folder = bootstrap::process_variable(launch::kRings);
  return folder.value_or("");
}

// "4 ranks in this process, 2 threads each".
std::string ranks_text(bootstrap::CommBackend comm, const bootstrap::RankEnvironment& environment, int32_t world_size,
                       bool on_gpus, int threads) {
  const char* const by = [&] {
    switch (comm) {
      case bootstrap::CommBackend::kLocal: return "by memory";
      case bootstrap::CommBackend::kMpi: return "by MPI";
      case bootstrap::CommBackend::kUcx: return "by UCX";
      case bootstrap::CommBackend::kNccl: return "by NCCL";
    }
    return "";
  }();
  std::string text = std::to_string(world_size) + (world_size == 1 ? " rank" : " ranks");
  text += environment.size == 1 ? " in this process" : ", a process each";
  if (world_size > 1) text += std::string(", ") + by;
  if (on_gpus) return text + ", on GPUs";
  return text + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads") + " a rank";
}

// For this run so far, by torchrun's variable. It is only shown: one that cannot be read is none.
int64_t restarts() {
  const std::string text = bootstrap::process_variable("TORCHELASTIC_RESTART_COUNT").value_or("");
  int64_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return std::max<int64_t>(count, 0);
}

}  // namespace

int run(const Flags& flags, const WrapRanks& wrap) {
  plan::let_large_files_fail();
  plan::let_unread_pipes_fail();
  const bool on_gpus = flags.device == "cuda";
  if (!on_gpus && (flags.cuda_graph || flags.comm == "nccl")) {
    std::fprintf(stderr, "piper-run: %s is for --device cuda\n", flags.cuda_graph ? "--cuda-graph" : "--comm nccl");
    return kCommandLine;
  }
  if (on_gpus && !flags.kernel_times.empty()) {
    std::fprintf(stderr, "piper-run: --kernel-times waits on CPU ranks, not on those of --device cuda\n");
    return kCommandLine;
  }
  if (flags.trained_only && flags.save.empty() && flags.save_best.empty()) {
    std::fprintf(stderr, "piper-run: --trained-only is for --save and --save-best\n");
    return kCommandLine;
  }
  const auto environment = bootstrap::read_rank_environment(bootstrap::process_variable);
  // Before MPI runs, the launcher's rank says which process speaks.
  const bool speaks = !environment.ok() || environment->rank == 0;
  auto refuse = [&](const Error& error) {
    if (speaks) print_error(error);
    else std::this_thread::sleep_for(std::chrono::milliseconds(500));  // a launcher ends all when the first one exits
    return kRefused;
  };
  if (!environment.ok()) return refuse(environment.error());
  const auto opened = plan::open_bundle(flags.bundle);
  if (!opened.ok()) return refuse(opened.error());
  const int32_t world_size = opened->manifest.world_size;
  const auto comm = on_gpus ? bootstrap::choose_gpu_comm(*environment, flags.comm, world_size)
                            : bootstrap::choose_comm(*environment, flags.comm, world_size);
  if (!comm.ok()) return refuse(comm.error());

  exec::Session session;
  exec::CpuBackendOptions cpu;
  cpu.threads = bootstrap::threads_per_rank(flags.threads, bootstrap::process_variable("OMP_NUM_THREADS"),
                                            bootstrap::usable_cores(), ranks_here(*comm, world_size));
  session.options.timeout = std::chrono::milliseconds(static_cast<int64_t>(flags.timeout_s * 1000));
  cpu.device.huge_pages = flags.huge_pages == "on";
  cpu.link_delay = session.options.link_delay = flags.link_delay;
  session.options.log = flags.log;
  session.options.tensorboard = flags.tensorboard;
  session.options.rings = rings_folder(flags);
  session.options.save = flags.save;
  session.options.trained_only = flags.trained_only;
  session.options.save_gradients = flags.save_gradients;
  session.options.profile = flags.profile;
  session.options.calibrate = flags.calibrate;
  session.options.kernel_times = flags.kernel_times;
  if (!flags.kernel_times.empty()) {
    auto times = plan::read_kernel_times(flags.kernel_times);
    if (!times.ok()) return refuse(times.error());
    cpu.kernels = kernels::waiting_library(std::move(times).value(), kernels::cpu_library());
    if (speaks) std::fprintf(stderr, "piper-run: note: kernels wait and compute nothing: losses mean nothing\n");
  }
  session.options.checkpoints = {flags.every, flags.every_minutes};
  session.options.stop_on_nan = flags.stop_on_nan && flags.kernel_times.empty();
  session.options.check_replicas = flags.check_replicas;
  session.options.peak_flops = flags.peak_flops;
  session.options.digests = {flags.digest, flags.digest_steps.first, flags.digest_steps.second};
  session.options.trace = {flags.trace, flags.trace_steps.first, flags.trace_steps.second};
  session.options.status_pages = bootstrap::process_variable(launch::kStatusPages).value_or("");
  session.options.restarts = restarts();
  // From the first signal on: a request to stop that comes while ranks meet is kept until a step is done.
  session.requests.checkpoints = !flags.checkpoints.empty() && !flags.eval_only;
  session.requests.grace_s = static_cast<unsigned>(flags.grace_s);
  Inputs inputs;  // read by the dump until the process ends
  inputs.ranks_text = ranks_text(*comm, *environment, world_size, on_gpus, cpu.threads);
  const SignalHandlers handlers(session.stop, session.requests);
  const RingDump dump(session);
  if (on_gpus) return run_gpus(flags, *opened, *environment, *comm, refuse, inputs, session);
  MakeRank make = [&](hal::Transport* links, int32_t) { return exec::cpu_backend(*links, cpu); };
  if (wrap) make = wrap(make, session);
  if (*comm == bootstrap::CommBackend::kLocal) return run_here(flags, *opened, make, true, inputs, session);
  return run_processes(flags, *opened, make, true, *environment, *comm, inputs, session);
}

}  // namespace piper::program
