#include "runtime/exec/executor.h"

#include <cstring>
#include <exception>

#include "schemas/base/check.h"

namespace piper::exec {

Executor::Executor(LoadedRank& rank, hal::Stop& stop, std::chrono::milliseconds timeout, int threads)
    : rank_(rank),
      stop_(stop),
      positions_(rank.streams.size()),
      streams_(rank.device->make_streams(static_cast<int>(rank.streams.size()))),
      walk_([this](int stream) { walk(stream); }) {
  context_.wait = {&stop, timeout};
  streams_->run([threads](int) { kernels::enter_worker_thread(threads); });
}

Status Executor::run_step(int64_t step, double lr, uint64_t seed) {
  context_.step = step;
  context_.capture_gradients = rank_.gradients != nullptr && step == 1;
  if (rank_.plan->seed_step.buffer >= 0) {
    const int64_t values[2] = {static_cast<int64_t>(seed), step};
    std::memcpy(rank_.at(rank_.plan->seed_step), values, sizeof values);
  }
  if (rank_.plan->learning_rate.buffer >= 0) {
    std::memcpy(rank_.at(rank_.plan->learning_rate), &lr, sizeof lr);
  }
  if (profile_ != nullptr) profile_->begin_step(step);
  if (!rank_.streams.empty()) streams_->run(walk_);
  return stop_.raised() ? hal::stopped() : Status();
}

void Executor::walk(int stream) {
  if (static_cast<size_t>(stream) >= rank_.streams.size()) return;
  std::atomic<int32_t>& position = positions_[static_cast<size_t>(stream)].instruction;
  for (const BoundInstruction& instruction : rank_.streams[static_cast<size_t>(stream)]) {
    if (stop_.raised()) return;
    position.store(instruction.index, std::memory_order_relaxed);
    Status status;
    try {
      status = profile_ == nullptr ? instruction.prepared->execute(context_) : execute(instruction);
    } catch (const InternalError& bug) {
      status = Status::failure("bug", bug.what());
    } catch (const std::exception& failure) {
      status = Status::failure("R0403", failure.what());
    }
    if (status.ok()) continue;
    if (!hal::is_stopped(status)) fail(stream, instruction.index, std::move(status));
    return;
  }
  position.store(-1, std::memory_order_relaxed);
}

Status Executor::execute(const BoundInstruction& instruction) {
  const auto begin = trace::Profile::Clock::now();
  const int64_t begin_cpu = trace::Profile::thread_ns();
  Status status = instruction.prepared->execute(context_);
  const int64_t cpu = trace::Profile::thread_ns() - begin_cpu;
  profile_->add(instruction.index, begin, trace::Profile::Clock::now(), cpu);
  return status;
}

void Executor::fail(int stream, int32_t instruction, Status failure) {
  std::string text = failure.error().message;
  // Who waits in vain is seldom who is to blame: say where this rank's other streams stand.
  if (failure.error().code == "R0302")
    for (size_t other = 0; other < positions_.size(); ++other) {
      const int32_t at = positions_[other].instruction.load(std::memory_order_relaxed);
      if (static_cast<int>(other) == stream) continue;
      text +=
          "\n  stream " + rank_.plan->streams[other].name + ": " +
          (at < 0 ? std::string("done or not begun") : "at " + describe_instruction(*rank_.bundle, *rank_.plan, at));
    }
  stop_.raise(Status::failure(failure.error().code,
                              "rank " + std::to_string(rank_.plan->rank) + ", step " + std::to_string(context_.step) +
                                  ", " + describe_instruction(*rank_.bundle, *rank_.plan, instruction) + ": " + text));
}

int64_t Executor::scratch_high_water() {
  std::atomic<int64_t> total{0};
  streams_->run([&total](int) { total += kernels::scratch_high_water(); });
  return total;
}

}  // namespace piper::exec
