#include "runtime/exec/rehearse.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/exec/instruction_text.h"
#include "runtime/exec/instructions/prepare.h"

namespace piper::exec {

namespace {

// Keeps the first failure, with its instruction.
class Failure : public hal::StepObserver {
 public:
  explicit Failure(const LoadedRank& rank) : rank_(rank) {}
  void failed(int32_t, int32_t instruction, Status failure, const std::vector<int32_t>&) override {
    if (!first_.ok()) return;
    first_ = instruction < 0
                 ? std::move(failure)
                 : std::move(failure).with_context(describe_instruction(*rank_.bundle, *rank_.plan, instruction));
  }
  void ran(int32_t, Clock::time_point, Clock::time_point, int64_t) override {}
  // `status` of a submission, with the reason where it was reported here.
  Status reason(Status status) { return first_.ok() ? std::move(status) : std::move(first_); }

 private:
  const LoadedRank& rank_;
  Status first_;
};

// Timed submissions are issued command by command, on a device with graphs as well.
Status submit(const LoadedRank& rank, std::vector<hal::Issue> issues, const hal::WaitControl& wait) {
  if (issues.empty()) return {};
  PIPER_ASSIGN(const auto recording, rank.device().record(std::move(issues)));
  Failure failure(rank);
  Status status = recording->submit(wait, failure, true);
  if (status.ok()) status = rank.device().finish();
  return status.ok() ? Status() : failure.reason(std::move(status));
}

// The first command of each program on `queue`: those on other arguments do the same work.
std::vector<hal::Issue> programs_on(const LoadedRank& rank, int32_t queue) {
  std::vector<hal::Issue> issues;
  std::set<const plan::Program*> seen;
  for (size_t i = 0; i < rank.commands.size(); ++i) {
    const auto* program = dynamic_cast<const ProgramCommand*>(rank.commands[i].get());
    if (program == nullptr || rank.plan->instructions[i].stream != queue) continue;
    if (seen.insert(&program->program()).second)
      issues.push_back({queue, static_cast<int32_t>(i), rank.commands[i].get()});
  }
  return issues;
}

// One queue after the other: programs of two would meet on the same buffers.
Status run_programs(const LoadedRank& rank, const hal::WaitControl& wait) {
  for (size_t queue = 0; queue < rank.plan->streams.size(); ++queue)
    PIPER_RETURN_IF_ERROR(submit(rank, programs_on(rank, static_cast<int32_t>(queue)), wait));
  return {};
}

Status clear(const LoadedRank& rank, const hal::WaitControl& wait) {
  hal::Device& device = rank.device();
  std::vector<std::unique_ptr<hal::Command>> fills;
  const auto fill = [&](hal::Address place, int64_t bytes) {
    if (bytes > 0) fills.push_back(device.fill(place, std::byte{0}, bytes));
  };
  for (const auto& region : {rank.arena, rank.persistent, rank.scratch}) fill(region->base(), region->bytes());
  const kernels::FaultRecord record = rank.backend->kernels->fault_record();
  if (!record.place.nowhere()) fill(record.place, record.bytes);
  std::vector<hal::Issue> issues;
  for (const auto& command : fills) issues.push_back({0, -1, command.get()});
  return submit(rank, std::move(issues), wait);
}

}  // namespace

Status rehearse(LoadedRank& rank, const hal::WaitControl& wait) {
  const kernels::Library& kernels = *rank.backend->kernels;
  if (!kernels.wants_rehearsal()) return {};
  kernels.measure_scratch(true);
  Status status = run_programs(rank, wait);
  if (status.ok() && rank.evaluation != nullptr) status = run_programs(*rank.evaluation, wait);
  kernels.measure_scratch(false);
  if (auto beyond = kernels.scratch_beyond_plan(); !beyond.empty())
    std::fprintf(stderr, "piper-run: note: %s\n", scratch_note(rank.plan->rank, std::move(beyond)).c_str());
  return status.ok() ? clear(rank, wait) : std::move(status).with_context("before the first step");
}

std::string scratch_note(int32_t rank, std::vector<kernels::ScratchBeyondPlan> calls) {
  constexpr size_t kTold = 10;
  std::sort(calls.begin(), calls.end(),
            [](const auto& a, const auto& b) { return a.taken - a.counted > b.taken - b.counted; });
  std::string text = "rank " + std::to_string(rank) + ": " + std::to_string(calls.size()) +
                     (calls.size() == 1 ? " kernel call takes" : " kernel calls take") +
                     " more scratch than the plan counts, by up to " +
                     std::to_string(calls.empty() ? 0 : calls[0].taken - calls[0].counted) + " bytes:";
  for (size_t i = 0; i < calls.size() && i < kTold; ++i)
    text += "\n  " + calls[i].call + " takes " + std::to_string(calls[i].taken) + " bytes, the plan counts " +
            std::to_string(calls[i].counted);
  return calls.size() <= kTold ? text : text + "\n  and " + std::to_string(calls.size() - kTold) + " more";
}

}  // namespace piper::exec
