// piper-run: executes a plan bundle. Exit status: 0 done, 1 refused before the first step, 2 command
// line, 3 failed later or the log is incomplete, 70 a bug of piper-run, 74 a checkpoint could not be written, 83 no
// valid checkpoint, 84 a checkpoint of another model, optimizer or data set.
#include <CLI/CLI.hpp>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

#include "runtime/bootstrap/rank_environment.h"
#include "runtime/bootstrap/rendezvous.h"
#include "runtime/bootstrap/threads.h"
#include "runtime/checkpoint/choose_start.h"
#include "runtime/data/data_digest.h"
#include "runtime/exec/cuda_backend.h"
#include "runtime/exec/session.h"
#include "runtime/exit_status.h"
#include "runtime/hal/local/local_transport.h"
#include "runtime/hal/mpi/mpi_transport.h"
#include "runtime/hal/tcp/tcp_store_channel.h"
#include "runtime/hal/transport_channel.h"
#include "runtime/kernels/kernel.h"
#include "schemas/plan/bundle_io.h"
#include "schemas/plan/mapped_names.h"
#include "schemas/verify/verify.h"

namespace piper {
namespace {

constexpr double kLongestWaitS = 1e9;

struct Flags {
  std::string bundle, data, sampling, token_dtype, load, comm, device = "cpu", huge_pages = "on";
  std::string log, save, save_gradients, profile, link_delay, checkpoints;
  std::optional<std::string> resume;
  int64_t every = 0, keep = 3;
  double every_minutes = 0;
  std::optional<int64_t> steps;
  std::optional<uint64_t> seed;
  bool cuda_graph = false;
  int threads = 0;
  double timeout_s = 300;
};

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

void declare_flags(CLI::App& app, Flags& flags) {
  // CLI11's own check answers with the largest double, digit by digit.
  const CLI::Validator whole_number(
      [](std::string& text) {
        const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
        return digits ? std::string() : "'" + text + "' is not a whole number of at least 0";
      },
      "NONNEGATIVE");
  const CLI::Validator link_delay(
      [](std::string& text) {
        return parse_link_delay(text)
                   ? std::string()
                   : "'" + text + "' is not microseconds, or microseconds,bytes per second: 500 or 500,1000000000";
      },
      "MICROSECONDS[,BYTES_PER_SECOND]");
  const CLI::Validator resume(
      [](std::string& text) {
        return text == "latest-valid" || exact_step(text)
                   ? std::string()
                   : "'" + text + "' is neither latest-valid nor exact:STEP, as in exact:1200";
      },
      "latest-valid|exact:STEP");
  app.add_option("bundle", flags.bundle, "directory of the plan bundle")->required();
  app.add_option("--data", flags.data, "tensor file (.safetensors or a directory of .npy), token file (.bin) or text");
  app.add_option("--steps", flags.steps, "number of steps; default: the strategy's, else one pass over the data")
      ->check(whole_number);
  app.add_option("--sampling", flags.sampling, "order of the samples")
      ->check(CLI::IsMember({"sequential", "shuffled"}));
  app.add_option("--seed", flags.seed, "seed of sampling and dropout");
  app.add_option("--token-dtype", flags.token_dtype, "tokens of a .bin file; default u16, u32 for *.u32.bin")
      ->check(CLI::IsMember({"u8", "u16", "u32"}));
  app.add_option("--log", flags.log, "write one JSON object a step to this file");
  app.add_option("--load", flags.load, "start from the weights of this .safetensors file");
  app.add_option("--save", flags.save, "write the weights after the last step to this .safetensors file");
  auto* const folder = app.add_option("--checkpoint", flags.checkpoints,
                                      "save checkpoints to this folder: after the last step, and by --every");
  app.add_option("--every", flags.every, "steps from one checkpoint to the next")->check(whole_number)->needs(folder);
  app.add_option("--keep", flags.keep, "checkpoints that are kept, 0: all; default 3")
      ->check(whole_number)
      ->needs(folder);
  app.add_option("--resume", flags.resume,
                 "go on from the newest valid checkpoint, or from step STEP alone with exact:STEP")
      ->expected(0, 1)
      ->default_str("latest-valid")
      ->check(resume)
      ->needs(folder);
  app.add_option("--save-gradients", flags.save_gradients,
                 "write the first step's gradients to this .safetensors file");
  app.add_option("--profile", flags.profile,
                 "write the mean times of every instruction to this file, one JSON object a line");
  app.add_option("--comm", flags.comm,
                 "communicator; default: local for one process, mpi under a launcher, nccl for --device cuda")
      ->check(CLI::IsMember({"local", "mpi", "nccl"}));
  app.add_option("--device", flags.device, "device of the ranks")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_flag("--cuda-graph", flags.cuda_graph,
               "with --device cuda: capture a step once and replay it; what prevents a single graph is said");
  // Of whole numbers with an upper bound; the message names both ends.
  const auto between = [](int least, int most) {
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
  };
  const CLI::Validator seconds(
      [](std::string& text) {
        double value = 0;
        const char* const end = text.data() + text.size();
        const auto read = std::from_chars(text.data(), end, value);
        const bool fits = read.ec == std::errc() && read.ptr == end && value > 0 && value <= kLongestWaitS;
        return fits ? std::string()
                    : "'" + text + "' is not a number of seconds above 0 and up to " +
                          std::to_string(static_cast<int64_t>(kLongestWaitS));
      },
      "SECONDS");
  app.add_option("--threads", flags.threads, "threads per rank; default: usable cores / ranks, at most OMP_NUM_THREADS")
      ->check(between(1, 1024));
  app.add_option("--timeout", flags.timeout_s, "seconds a stream may wait before the run is given up")->check(seconds);
  app.add_option("--every-minutes", flags.every_minutes, "minutes from one checkpoint to the next")
      ->check(seconds)
      ->needs("--checkpoint");
  app.add_option("--link-delay", flags.link_delay,
                 "MICROSECONDS[,BYTES_PER_SECOND]: make every message between ranks take that long, for benchmarks")
      ->check(link_delay);
  app.add_option("--huge-pages", flags.huge_pages, "back the ranks' memory with huge pages")
      ->check(CLI::IsMember({"on", "off"}));
}

// The handler has no argument but the signal: the one place where the process's Stop is a global.
std::atomic<hal::Stop*> signal_stop{nullptr};

void on_signal(int signal_number) {
  if (hal::Stop* stop = signal_stop.load()) stop->raise_signal(signal_number);
}

// Bytes of a mapped file that are gone: the kernel raises SIGBUS where they are read, and no code can go on there. The
// address tells which file it was.
// Ranks of one process meet them at the same time: the first one tells and ends the process, the others wait for that.
std::atomic_flag bus_error_told;

void write_to_stderr(const char* text) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

void on_bus_error(int, siginfo_t* info, void*) {
  while (bus_error_told.test_and_set()) pause();
  if (const char* file = plan::mapped_name(info->si_addr)) {
    write_to_stderr("piper-run: error[R0209]: '");
    write_to_stderr(file);
    write_to_stderr("' was cut while the run read it; nothing was saved\n");
  } else {
    write_to_stderr(
        "piper-run: error: a bus error outside of the files that the run reads: a full /dev/shm, which MPI uses, or "
        "memory that fails; nothing was saved\n");
  }
  _exit(kFailed);
}

void install_signal_handlers(hal::Stop& stop) {
  signal_stop = &stop;
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second signal ends the process at once
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

void print_error(const Error& error) {
  if (error.reported) return;
  const std::string code = error.code.empty() ? "" : "[" + error.code + "]";
  std::fprintf(stderr, "piper-run: error%s: %s\n", code.c_str(), error.message.c_str());
}

// Ranks that share this machine's cores.
int ranks_here(bootstrap::Transport transport, int32_t world_size) {
  if (transport == bootstrap::Transport::kLocal) return world_size;
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"})
    if (auto value = bootstrap::process_variable(name)) return std::max(1, std::atoi(value->c_str()));
  return world_size;
}

// What a process reads before any rank starts.
struct Inputs {
  checkpoint::Start start;
  plan::Bundle bundle;
  std::optional<checkpoint::WeightSource> weights;
  std::unique_ptr<data::DataSource> data;
};

// `ranks` of the bundle are read. With rank 0 among them the whole bundle is read and proved, once for all processes:
// that they run the same bundle is checked by its digest. What is not asked for is then dropped.
Result<plan::Bundle> read_plans(const plan::OpenBundle& opened, const std::vector<int32_t>& ranks) {
  const bool proves = ranks.empty() || std::find(ranks.begin(), ranks.end(), 0) != ranks.end();
  PIPER_ASSIGN(auto bundle, plan::read_bundle(opened, proves ? std::vector<int32_t>{} : ranks));
  if (!proves) return bundle;
  if (auto proof = verify::verify(bundle); !proof.ok()) return proof.take_status();
  if (!ranks.empty()) {
    auto& plans = bundle.ranks;
    plans.erase(std::remove_if(plans.begin(), plans.end(),
                               [&](const plan::RankPlan& plan) {
                                 return std::find(ranks.begin(), ranks.end(), plan.rank) == ranks.end();
                               }),
                plans.end());
    plans.shrink_to_fit();
  }
  return bundle;
}

// Where the run goes on. `control`: null where all ranks are in this process.
Status choose_start(const Flags& flags, hal::ControlChannel* control, const hal::WaitControl& wait, Inputs& inputs) {
  if (flags.checkpoints.empty()) return {};
  checkpoint::StartOptions options{flags.checkpoints, flags.resume.has_value(), -1, flags.keep};
  if (flags.resume) options.exact = exact_step(*flags.resume).value_or(-1);
  PIPER_ASSIGN(inputs.start, checkpoint::choose_start(options, control, wait, [](const std::string& damaged) {
                 std::fprintf(stderr, "piper-run: warning[R0705]: a checkpoint is passed over: %s\n", damaged.c_str());
               }));
  return {};
}

// What checkpoints say of the run; R0703 where the one that it goes on from says something else.
Status check_identity(const data::DataOptions& data, const Inputs& inputs, exec::Session& session) {
  PIPER_ASSIGN(const std::string digest, data::data_digest(data));
  const bool shuffled = inputs.data->sampling() == data::Sampling::kShuffled;
  session.identity = {
      session.bundle_digest, data.seed, {digest, inputs.data->num_samples(), shuffled ? "shuffled" : "sequential"}};
  session.storage = inputs.start.storage.get();
  session.writer = inputs.start.writer;
  if (!inputs.start.from) return {};
  session.resume = &*inputs.start.from;
  const checkpoint::DataIdentity& before = session.resume->manifest().data;
  if (before == session.identity.data) return {};
  const auto text = [](const checkpoint::DataIdentity& d) {
    return std::to_string(d.samples) + " samples, " + d.sampling + ", SHA-256 " + d.sha256.substr(0, 12);
  };
  return Status::failure("R0703", "the checkpoint is of another training: its data set has " + text(before) +
                                      "; this run's has " + text(session.identity.data));
}

Status read_inputs(const Flags& flags, const plan::OpenBundle& opened, const std::vector<int32_t>& ranks,
                   Inputs& inputs, exec::Session& session) {
  PIPER_ASSIGN(inputs.bundle, read_plans(opened, ranks));
  session.bundle_digest = opened.digest;
  const plan::Manifest& manifest = inputs.bundle.manifest;
  PIPER_ASSIGN(inputs.weights, checkpoint::WeightSource::open(opened.directory, flags.load, manifest));

  data::DataOptions data;
  data.path = flags.data.empty() ? manifest.run.data : flags.data;
  data.seed = flags.seed.value_or(manifest.run.seed);
  if (inputs.start.from) {
    const uint64_t before = inputs.start.from->manifest().seed;
    if (flags.seed && *flags.seed != before)
      return Status::failure("R0703", "the checkpoint is of another training: its seed is " + std::to_string(before));
    data.seed = before;
  }
  data.token_dtype = flags.token_dtype;
  const std::string sampling = flags.sampling.empty() ? manifest.run.sampling : flags.sampling;
  if (!sampling.empty())
    data.sampling = sampling == "shuffled" ? data::Sampling::kShuffled : data::Sampling::kSequential;
  PIPER_ASSIGN(inputs.data, data::DataSource::open(data, manifest));

  exec::SessionOptions& options = session.options;
  options.seed = data.seed;
  options.steps =
      flags.steps.value_or(manifest.run.steps > 0 ? manifest.run.steps : inputs.data->steps_per_epoch(manifest.batch));
  session.bundle = &inputs.bundle;
  session.weights = &*inputs.weights;
  session.data = inputs.data.get();
  return flags.checkpoints.empty() ? Status() : check_identity(data, inputs, session);
}

// After the ranks of this process have ended: the exit status, having printed what is to be said.
int conclude(exec::Session& session, const Status& failure, bool quiet) {
  const bool started = session.started;
  if (!failure.ok()) {
    if (!quiet) print_error(failure.error());
    if (failure.error().code == "bug") return kBug;
    return exit_of(failure.error().code, started ? kFailed : kRefused);
  }
  if (const int signal_number = session.stop.signal_number(); signal_number != 0) {
    if (!quiet)
      std::fprintf(stderr, "piper-run: stopped by %s after step %lld of %lld; %s\n",
                   signal_number == SIGINT ? "SIGINT" : "SIGTERM", static_cast<long long>(session.steps_done.load()),
                   static_cast<long long>(session.options.steps),
                   session.committed == 0
                       ? "nothing was saved"
                       : ("the newest checkpoint is of step " + std::to_string(session.committed)).c_str());
    return started ? kFailed : kRefused;
  }
  if (session.log_failure.ok()) return kDone;
  const Error& log = session.log_failure.error();
  print_error(
      {log.code, log.message + "; the log is incomplete, the training is not: what was to be saved is saved", false});
  return kFailed;
}

// What rank `rank` is executed on. `transport`: between the ranks of the process, which is its way to them; nullptr: it
// has another.
using MakeRank = std::function<exec::MakeBackend(hal::Transport* transport, int32_t rank)>;

// All ranks in this process. `by_transport`: their data, too, goes over its memory.
int run_here(const Flags& flags, const plan::OpenBundle& opened, const MakeRank& make, bool by_transport,
             exec::Session& session) {
  const int32_t world_size = opened.manifest.world_size;
  Inputs inputs;
  Status status = choose_start(flags, nullptr, {}, inputs);
  if (status.ok()) status = read_inputs(flags, opened, {}, inputs, session);
  if (!status.ok()) {
    print_error(status.error());
    return exit_of(status.error().code, kRefused);
  }
  hal::LocalWorld world(world_size);
  std::vector<std::unique_ptr<hal::Transport>> transports;
  for (int32_t r = 0; r < world_size; ++r) transports.push_back(world.transport(r));
  std::vector<std::thread> ranks;
  for (const plan::RankPlan& plan : inputs.bundle.ranks)
    ranks.emplace_back([&session, &plan, &make, by_transport,
                        &transport = *transports[static_cast<size_t>(plan.rank)]] {
      hal::TransportChannel control(transport), checkpoint_control(transport, hal::kCheckpointChannel);
      exec::run_rank(session, plan, make(by_transport ? &transport : nullptr, plan.rank), control, &checkpoint_control);
    });
  for (std::thread& rank : ranks) rank.join();
  return conclude(session, session.stop.take_failure(), false);
}

// 0 where every rank could read what it needs, else the exit status; rank 0 prints the first failure that it learns of.
Result<int> all_ready(const Status& mine, hal::ControlChannel& control, const hal::WaitControl& wait) {
  const std::string text = mine.ok() ? "" : mine.error().code + "\n" + mine.error().message;
  PIPER_ASSIGN(const std::vector<std::string> all, control.allgather(text, wait));
  const auto failed = std::find_if(all.begin(), all.end(), [](const std::string& t) { return !t.empty(); });
  if (failed == all.end()) return 0;
  if (control.rank() == 0) {
    const size_t end = failed->find('\n');
    // What refutes the bundle, P063x, concerns all ranks, though one of them has found it.
    const bool everywhere = failed->compare(0, 4, "P063") == 0 ||
                            std::all_of(all.begin(), all.end(), [&](const std::string& t) { return t == *failed; });
    print_error({failed->substr(0, end),
                 (everywhere ? "" : "rank " + std::to_string(failed - all.begin()) + ": ") + failed->substr(end + 1),
                 false});
  }
  return exit_of(failed->substr(0, failed->find('\n')), kRefused);
}

int run_mpi(const Flags& flags, const plan::OpenBundle& opened, const exec::CpuBackendOptions& cpu,
            exec::Session& session) {
  auto made = hal::MpiTransport::make();
  if (!made.ok()) {
    print_error(made.error());
    return kRefused;
  }
  hal::MpiTransport& transport = **made;
  hal::TransportChannel control(transport);
  if (Status status = bootstrap::check_world_size(transport.world_size(), opened.manifest.world_size); !status.ok()) {
    if (transport.rank() == 0) print_error(status.error());
    return kRefused;
  }
  Inputs inputs;
  const hal::WaitControl wait{&session.stop, session.options.timeout};
  Status status = choose_start(flags, &control, wait, inputs);
  if (status.ok()) status = read_inputs(flags, opened, {transport.rank()}, inputs, session);
  const auto ready = all_ready(status, control, wait);
  if (ready.ok() && *ready != 0) return *ready;
  if (!ready.ok()) {
    if (!hal::is_stopped(ready.status())) print_error(ready.error());
    transport.abort(kRefused);
  }
  const auto& plans = inputs.bundle.ranks;
  const auto mine =
      std::find_if(plans.begin(), plans.end(), [&](const plan::RankPlan& p) { return p.rank == transport.rank(); });
  PIPER_CHECK(mine != plans.end(), "the bundle has no plan of rank ", transport.rank());
  hal::TransportChannel checkpoint_control(transport, hal::kCheckpointChannel);
  std::thread rank(
      [&] { exec::run_rank(session, *mine, exec::cpu_backend(transport, cpu), control, &checkpoint_control); });
  rank.join();

  if (!session.stop.raised()) return conclude(session, {}, false);
  const bool speaks = transport.rank() == 0;
  const Status failure = session.stop.take_failure();
  // What every rank found alike needs one message, and nobody is left waiting.
  if (!failure.ok() && failure.error().code == "R0102") return conclude(session, failure, !speaks);
  // Other ranks wait for this one: MPI ends them, and where it does so by SIGTERM the cause is told already.
  const int exit_code =
      conclude(session, failure, failure.ok() && (session.stop.signal_number() == SIGTERM || !speaks));
  transport.abort(exit_code);
  return exit_code;
}

// This process is one rank of several; their data go by NCCL, what hosts tell each other by the store that the launcher
// says.
int run_nccl(const Flags& flags, const plan::OpenBundle& opened, const bootstrap::RankEnvironment& environment,
             const MakeRank& make, exec::Session& session) {
  const bool speaks = environment.rank == 0;
  const hal::WaitControl wait{&session.stop, session.options.timeout};
  const auto refuse = [&](const Error& error) {
    print_error(error);
    return kRefused;
  };
  if (!flags.checkpoints.empty())
    return refuse({"R0106", "checkpoints are not written by ranks over NCCL: leave out --checkpoint", false});
  auto address = bootstrap::read_rendezvous(environment, bootstrap::process_variable);
  if (!address.ok()) return refuse(address.error());
  auto joined =
      hal::TcpStoreChannel::join({std::move(address).value(), environment.rank, environment.size, opened.digest}, wait);
  if (!joined.ok()) return hal::is_stopped(joined.status()) ? kRefused : refuse(joined.error());
  hal::TcpStoreChannel& control = **joined;
  Inputs inputs;
  const Status status = read_inputs(flags, opened, {environment.rank}, inputs, session);
  const auto ready = all_ready(status, control, wait);
  if (!ready.ok()) return hal::is_stopped(ready.status()) ? kRefused : refuse(ready.error());
  if (!*ready) {
    (void)control.leave(wait);
    return kRefused;
  }
  const auto& plans = inputs.bundle.ranks;
  const auto mine =
      std::find_if(plans.begin(), plans.end(), [&](const plan::RankPlan& p) { return p.rank == environment.rank; });
  PIPER_CHECK(mine != plans.end(), "the bundle has no plan of rank ", environment.rank);
  std::thread rank([&] { exec::run_rank(session, *mine, make(nullptr, mine->rank), control); });
  rank.join();
  if (!session.stop.raised()) {
    (void)control.leave(wait);
    return conclude(session, {}, false);
  }
  const Status failure = session.stop.take_failure();
  return conclude(session, failure, !speaks && (failure.ok() || failure.error().code == "R0102"));
}

// Ranks on GPUs; `refuse` prints.
int run_cuda(const Flags& flags, const plan::OpenBundle& opened, const bootstrap::RankEnvironment& environment,
             bootstrap::Transport transport, const std::function<int(const Error&)>& refuse, exec::Session& session) {
  const int32_t world_size = opened.manifest.world_size;
  const auto cuda = exec::open_cuda();
  if (!cuda.ok()) return refuse(cuda.error());
  if (opened.manifest.target.device != plan::DeviceKind::kCuda)
    return refuse({"R0106", "the plan was compiled for CPU ranks: compile it with piperc --device cuda", false});
  const bool by_nccl = transport == bootstrap::Transport::kNccl, alone = environment.size == 1;
  if (by_nccl && alone && cuda->devices < world_size)
    return refuse({"R0106",
                   "--comm nccl wants a GPU for each of the " + std::to_string(world_size) + " ranks, and here are " +
                       std::to_string(cuda->devices) + ": use --comm local, which runs several on one",
                   false});
  int32_t local_rank = 0;
  if (!alone) {
    const auto read = bootstrap::read_local_rank(environment, bootstrap::process_variable);
    if (!read.ok()) return refuse(read.error());
    local_rank = *read;
  }
  const MakeRank make = [&](hal::Transport* links, int32_t rank) {
    exec::CudaBackendOptions options;
    options.ordinal = (alone ? rank : local_rank) % cuda->devices;
    options.graphs = flags.cuda_graph;
    options.summing = opened.manifest.target.summing;
    options.transport = links;
    return cuda->backend(options);
  };
  return alone ? run_here(flags, opened, make, !by_nccl, session) : run_nccl(flags, opened, environment, make, session);
}

int run(const Flags& flags) {
  const bool on_gpus = flags.device == "cuda";
  if (!on_gpus && (flags.cuda_graph || flags.comm == "nccl")) {
    std::fprintf(stderr, "piper-run: %s is for --device cuda\n", flags.cuda_graph ? "--cuda-graph" : "--comm nccl");
    return kCommandLine;
  }
  const auto environment = bootstrap::read_rank_environment(bootstrap::process_variable);
  // Before MPI runs, the launcher's rank tells which process speaks.
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
  const auto transport = on_gpus ? bootstrap::choose_gpu_transport(*environment, flags.comm, world_size)
                                 : bootstrap::choose_transport(*environment, flags.comm, world_size);
  if (!transport.ok()) return refuse(transport.error());

  exec::Session session;
  exec::CpuBackendOptions cpu;
  cpu.threads = bootstrap::threads_per_rank(flags.threads, bootstrap::process_variable("OMP_NUM_THREADS"),
                                            bootstrap::usable_cores(), ranks_here(*transport, world_size));
  session.options.timeout = std::chrono::milliseconds(static_cast<int64_t>(flags.timeout_s * 1000));
  cpu.device.huge_pages = flags.huge_pages == "on";
  if (!flags.link_delay.empty()) cpu.link_delay = session.options.link_delay = parse_link_delay(flags.link_delay);
  session.options.log = flags.log;
  session.options.save = flags.save;
  session.options.save_gradients = flags.save_gradients;
  session.options.profile = flags.profile;
  session.options.checkpoints = {flags.every, flags.every_minutes};
  install_signal_handlers(session.stop);
  int code = kBug;
  if (on_gpus) {
    code = run_cuda(flags, *opened, *environment, *transport, refuse, session);
  } else if (*transport == bootstrap::Transport::kLocal) {
    const MakeRank make = [&](hal::Transport* links, int32_t) { return exec::cpu_backend(*links, cpu); };
    code = run_here(flags, *opened, make, true, session);
  } else {
    code = run_mpi(flags, *opened, cpu, session);
  }
  signal_stop = nullptr;
  return code;
}

}  // namespace
}  // namespace piper

// Sanitizers are not set up yet at that point.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PIPER_RUNS_BEFORE_LIBRARIES
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#undef PIPER_RUNS_BEFORE_LIBRARIES
#endif
#endif
#endif
#if defined(PIPER_RUNS_BEFORE_LIBRARIES)
[[gnu::used,
  gnu::section(".preinit_array")]] void (*const before_libraries)(int, char**,
                                                                  char**) = &piper::bootstrap::bound_spinning;
#endif

int main(int argc, char** argv) {
  piper::kernels::initialise_process();
  CLI::App app{"Executes a plan bundle written by piperc.", "piper-run"};
  piper::Flags flags;
  piper::declare_flags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? piper::kDone : piper::kCommandLine;
  }
  try {
    return piper::run(flags);
  } catch (const std::exception& bug) {
    std::fprintf(stderr, "piper-run: bug in piper-run: %s\n", bug.what());
    return piper::kBug;
  }
}
