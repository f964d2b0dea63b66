// Communicators of one member each on one GPU: every call that piper makes of NCCL, issued, captured and replayed, and
// the ends of communicators. tests/standin runs the same on the stand-in. Times and memory are printed as they come.
// With NCCL_GRAPH_MIXING_SUPPORT=0 in the environment all cases but the last are allowed.
#include <catch2/catch.hpp>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "runtime/hal/cuda/cuda_device.h"
#include "runtime/hal/gpu_environment.h"
#include "runtime/hal/local/local_transport.h"
#include "runtime/hal/nccl/nccl_commands.h"
#include "runtime/hal/transport_channel.h"

namespace piper::hal {
namespace {

const WaitControl kWait{nullptr, std::chrono::seconds(60)};

class Stopwatch {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

template <class... Values>
void tell(const char* form, Values... values) {
  std::printf(form, values...);
  std::fflush(stdout);
}

// Whether there is a GPU; else a line says so, once.
bool has_gpu() {
  static const bool found = [] {
    set_gpu_environment();
    const auto devices = cuda_devices();
    if (!devices.ok()) tell("skipped: %s\n", devices.error().message.c_str());
    return devices.ok() && *devices > 0;
  }();
  return found;
}

template <class T>
T value(Result<T> result) {
  INFO((result.ok() ? "" : result.error().message));
  REQUIRE(result.ok());
  return std::move(result).value();
}
void want(const Status& status) {
  INFO((status.ok() ? "" : status.error().message));
  REQUIRE(status.ok());
}

// A rank alone: two queues, memory for each command, and communicators 'a', 'b', .. of itself.
class Alone : private StepObserver {
 public:
  static constexpr int64_t kElements = 1 << 12;

  explicit Alone(size_t communicators, bool graphs) : transport_(world_.transport(0)), control_(*transport_) {
    device_ = value(make_cuda_device({.graphs = graphs}, std::vector<QueueOptions>(2)));
    std::vector<NcclMembership> memberships;
    for (size_t i = 0; i < communicators; ++i) {
      NcclMembership membership{std::string(1, static_cast<char>('a' + i)), {0}, 0, {}};
      membership.uses = {.all_messages = true, .all_reduce = true, .reduce_scatter = true, .all_gather = true};
      memberships.push_back(std::move(membership));
    }
    const Stopwatch opening;
    communicators_ = value(NcclCommunicators::open(std::move(memberships), control_, kWait));
    tell("%zu communicators of one member: opened and used once in %.1f ms, %lld bytes of the device\n", communicators,
         opening.ms(), static_cast<long long>(communicators_->device_bytes()));
  }

  NcclCommunicators& communicators() { return *communicators_; }
  Device& device() { return *device_; }
  NcclPlace place(size_t communicator) { return {communicators_.get(), &communicators_->at(communicator)}; }
  Address allocate(int64_t bytes) {
    regions_.push_back(value(device_->allocate(bytes)));
    return regions_.back()->base();
  }
  // `floats` of the device, as they are now.
  std::vector<float> read(Address from, size_t floats = kElements) {
    std::vector<float> seen(floats);
    want(device_->read(seen.data(), from, static_cast<int64_t>(floats * sizeof(float))));
    return seen;
  }
  void write(Address to, const std::vector<float>& floats) {
    want(device_->write(to, floats.data(), static_cast<int64_t>(floats.size() * sizeof(float))));
  }

  void add(int32_t queue, MadeCommand made) {
    commands_.push_back(value(std::move(made)));
    issues_.push_back({queue, static_cast<int32_t>(issues_.size()), commands_.back().get()});
  }
  void record() { recording_ = value(device_->record(issues_)); }
  Recording& recording() { return *recording_; }
  void submit() {
    Status status = recording_->submit(kWait, *this, false);
    INFO((failure_.ok() ? "" : failure_.error().message));
    want(status);
  }
  void finish() { want(device_->finish()); }
  void forget_recording() { recording_.reset(); }

 private:
  void failed(int32_t, int32_t, Status failure, const std::vector<int32_t>&) override { failure_ = std::move(failure); }
  void ran(int32_t, Clock::time_point, Clock::time_point, int64_t) override {}
  Status watch() override { return communicators_->check(); }

  LocalWorld world_{1};
  std::unique_ptr<Transport> transport_;
  TransportChannel control_;
  std::unique_ptr<Device> device_;
  std::vector<std::unique_ptr<MemoryRegion>> regions_;
  std::unique_ptr<NcclCommunicators> communicators_;
  std::vector<std::unique_ptr<Command>> commands_;
  std::vector<Issue> issues_;
  std::unique_ptr<Recording> recording_;
  Status failure_;
};

// What goes in, and where it comes out.
struct Passed {
  const char* call;
  Address from, to;
};

// Each call of its own data, on both queues and two communicators: where it should come out as it went in.
std::vector<Passed> add_every_call(Alone& rank) {
  constexpr int64_t kBytes = Alone::kElements * static_cast<int64_t>(sizeof(float));
  std::vector<Passed> passed;
  const auto next = [&](const char* call) -> Passed& {
    return passed.emplace_back(Passed{call, rank.allocate(kBytes), rank.allocate(kBytes)});
  };
  for (const int32_t queue : {0, 1}) {
    const NcclPlace place = rank.place(static_cast<size_t>(queue));
    SumOperands sum;
    sum.count = Alone::kElements;
    {
      Passed& p = next("ncclAllReduce");
      p.to = sum.data = p.from;
      rank.add(queue, nccl_all_reduce(place, sum));
    }
    {
      Passed& p = next("ncclReduceScatter");
      sum.data = p.from;
      sum.out = p.to;
      rank.add(queue, nccl_reduce_scatter(place, sum));
    }
    {
      Passed& p = next("ncclAllGather");
      rank.add(queue, nccl_all_gather(place, {p.from, p.to, kBytes}));
    }
    {
      Passed& p = next("ncclSend and ncclRecv");
      rank.add(queue, nccl_transfers(place, {{Direction::kSend, 0, 0, p.from, kBytes},
                                             {Direction::kReceive, 0, 0, p.to, kBytes}}));
    }
  }
  return passed;
}

std::vector<float> numbers(float first) {
  std::vector<float> all(Alone::kElements);
  std::iota(all.begin(), all.end(), first);
  return all;
}

// Submits it with other data each time.
void pass_several_times(Alone& rank, const std::vector<Passed>& passed, const char* how) {
  for (int time = 0; time < 3; ++time) {
    INFO("submission " << time + 1 << ", " << how);
    for (size_t i = 0; i < passed.size(); ++i)
      rank.write(passed[i].from, numbers(static_cast<float>(1000 * time + 10 * static_cast<int>(i))));
    const Stopwatch submitting;
    rank.submit();
    const double submitted = submitting.ms();
    rank.finish();
    tell("%zu calls, %s, submission %d: %.3f ms to submit, %.3f ms until they are done\n", passed.size(), how, time + 1,
         submitted, submitting.ms());
    for (size_t i = 0; i < passed.size(); ++i) {
      INFO(passed[i].call);
      CHECK(rank.read(passed[i].to) == numbers(static_cast<float>(1000 * time + 10 * static_cast<int>(i))));
    }
  }
}

TEST_CASE("every call of one-member communicators gives what it was given") {
  if (!has_gpu()) return;
  Alone rank(2, false);
  const std::vector<Passed> passed = add_every_call(rank);
  rank.record();
  pass_several_times(rank, passed, "issued");
  rank.forget_recording();
  const Stopwatch closing;
  rank.communicators().close();
  tell("closed in %.1f ms\n", closing.ms());
}

TEST_CASE("the same calls are captured, and replayed on other data") {
  if (!has_gpu()) return;
  Alone rank(2, true);
  const std::vector<Passed> passed = add_every_call(rank);
  rank.record();
  CHECK(rank.recording().uncaptured().empty());
  pass_several_times(rank, passed, "by a graph");
  rank.forget_recording();
  const Stopwatch closing;
  rank.communicators().close();
  tell("closed after a graph in %.1f ms\n", closing.ms());
}

TEST_CASE("NCCL adds every type that plans have") {
  if (!has_gpu()) return;
  Alone rank(1, false);
  constexpr size_t kOnes = 64;
  struct Ones {
    DType type;
    uint64_t one;  // its bits
    Address place = {};
  } all[] = {{DType::kF32, 0x3f800000}, {DType::kF64, 0x3ff0000000000000},
             {DType::kBF16, 0x3f80},    {DType::kF16, 0x3c00},
             {DType::kI64, 1},          {DType::kI32, 1}};
  const auto bytes_of = [](const Ones& ones) {
    const auto size = static_cast<size_t>(dtype_bytes(ones.type));
    std::vector<std::byte> bytes(kOnes * size);
    for (size_t i = 0; i < kOnes; ++i) std::memcpy(bytes.data() + i * size, &ones.one, size);
    return bytes;
  };
  for (Ones& ones : all) {
    const std::vector<std::byte> bytes = bytes_of(ones);
    SumOperands sum;
    sum.data = ones.place = rank.allocate(static_cast<int64_t>(bytes.size()));
    sum.count = kOnes;
    sum.types = {ones.type};
    want(rank.device().write(sum.data, bytes.data(), static_cast<int64_t>(bytes.size())));
    rank.add(0, nccl_all_reduce(rank.place(0), sum));
  }
  rank.record();
  rank.submit();
  rank.finish();
  for (const Ones& ones : all) {
    INFO(dtype_name(ones.type));
    std::vector<std::byte> seen(bytes_of(ones).size());
    want(rank.device().read(seen.data(), ones.place, static_cast<int64_t>(seen.size())));
    CHECK(seen == bytes_of(ones));
  }
}

// As a run that fails ends: recordings first, then all communicators in one group.
TEST_CASE("communicators are aborted while their calls are under way, issued or by a graph") {
  if (!has_gpu()) return;
  for (const bool graphs : {false, true}) {
    INFO((graphs ? "by a graph" : "issued"));
    Alone rank(2, graphs);
    (void)add_every_call(rank);
    rank.record();
    rank.submit();
    rank.finish();
    rank.submit();
    const Stopwatch aborting;
    rank.forget_recording();
    rank.communicators().abort();
    tell("aborted %s in %.1f ms\n", graphs ? "with a graph under way" : "with calls under way", aborting.ms());
    CHECK(rank.device().finish().ok());
  }
}

// Between two graphs: the host reads how many rows travel.
TEST_CASE("a counted exchange stands between graphs of the same communicator") {
  if (!has_gpu()) return;
  Alone rank(2, true);
  std::vector<Passed> passed = add_every_call(rank);
  const Address counts = rank.allocate(2 * sizeof(int64_t));
  ExchangeOperands exchange;
  exchange.bytes = Alone::kElements * static_cast<int64_t>(sizeof(float));
  exchange.row_bytes = 64;
  exchange.send = rank.allocate(exchange.bytes);
  exchange.recv = rank.allocate(exchange.bytes);
  exchange.send_counts = counts;
  exchange.recv_counts = counts + static_cast<int64_t>(sizeof(int64_t));
  const int64_t rows[2] = {exchange.bytes / exchange.row_bytes, exchange.bytes / exchange.row_bytes};
  want(rank.device().write(counts, rows, sizeof rows));
  rank.add(0, nccl_counted_exchange(rank.place(0), rank.device(), exchange));
  passed.push_back({"counted rows", exchange.send, exchange.recv});
  for (const Passed& p : add_every_call(rank)) passed.push_back(p);
  rank.record();
  CHECK(rank.recording().uncaptured().size() == 1);
  pass_several_times(rank, passed, "by two graphs");
  rank.forget_recording();
  rank.communicators().close();
}

}  // namespace
}  // namespace piper::hal
