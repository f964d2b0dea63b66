#include "runtime/exec/executor.h"

#include <atomic>

#include "runtime/exec/instruction_text.h"
#include "runtime/exec/instructions/prepare.h"

namespace piper::exec {

Executor::Executor(LoadedRank& rank, hal::Stop& stop, std::chrono::milliseconds timeout, const trace::RingWriter* ring,
                   const char* noun)
    : rank_(rank), stop_(stop), wait_{&stop, timeout}, noun_(noun) {
  const size_t streams = ring == nullptr ? 0 : rank.plan->streams.size();
  for (size_t s = 0; s < streams; ++s) {
    tracks_.push_back(ring->stream(static_cast<int32_t>(s)));
    waits_.emplace_back(tracks_.back());
  }
  for (const plan::Instruction& instruction : rank.plan->instructions)
    computes_.push_back(std::holds_alternative<plan::Run>(instruction.action) ||
                        std::holds_alternative<plan::Update>(instruction.action));
}

Status Executor::run_step(int64_t step) {
  const bool first = step_ == 0;
  batch_ = step == step_ ? batch_ + 1 : 0;
  step_ = step;
  hal::Recording& recording = first && rank_.capturing_step != nullptr ? *rank_.capturing_step : *rank_.step;
  if (profile_ != nullptr) profile_->begin_step(step);
  const bool traced = trace_ != nullptr && trace_->begin_step(step);
  Status status = recording.submit(wait_, *this, traced || profile_ != nullptr);
  if (status.ok() && rank_.faults != nullptr) status = rank_.faults->begin();
  if (status.ok()) status = rank_.device().finish();
  if (status.ok() && rank_.faults != nullptr) status = look_for_faults();
  if (!status.ok()) end_rank();
  return status;
}

// Who waits for other ranks on the device is let go, so that its memory can be given back.
void Executor::end_rank() {
  rank_.end_recordings();
  rank_.backend->collectives->abort();
}

Status Executor::run_step(int64_t step, const CallByCall& calls, PieceObserver& observer) {
  step_ = step;
  Status status = run_pieces(calls, observer);
  if (status.ok() && rank_.faults != nullptr) status = rank_.faults->begin();
  if (status.ok() && rank_.faults != nullptr) status = look_for_faults();
  if (!status.ok()) end_rank();
  return status;
}

Status Executor::run_pieces(const CallByCall& calls, PieceObserver& observer) {
  for (const StepPiece& piece : calls.pieces()) {
    Status status = observer.before(piece);
    // Timed: what is issued so is not made a graph of.
    if (status.ok()) status = piece.recording->submit(wait_, *this, true);
    if (status.ok()) status = rank_.device().finish();
    if (status.ok()) observer.took(piece, last_cpu_ns_);
    if (status.ok()) status = observer.after(piece);
    if (status.ok()) continue;
    if (hal::is_stopped(status)) return status;
    failed(-1, piece.instruction, std::move(status), {});
    return hal::stopped();
  }
  return {};
}

// Runs that agree in all share their kernels: the first of them stands for all.
Status Executor::look_for_faults() {
  PIPER_ASSIGN(const std::byte* record, rank_.faults->wait());
  const kernels::Library& library = *rank_.backend->kernels;
  if (library.read_fault(record).ok()) return {};
  for (size_t i = 0; i < rank_.commands.size(); ++i) {
    const auto* program = dynamic_cast<const ProgramCommand*>(rank_.commands[i].get());
    Status fault = program == nullptr ? Status() : program->fault(library, record);
    if (fault.ok()) continue;
    failed(-1, static_cast<int32_t>(i), std::move(fault), {});
    return hal::stopped();
  }
  failed(-1, -1, library.read_fault(record), {});
  return hal::stopped();
}

void Executor::reached(int32_t queue, int32_t instruction) {
  if (tracks_.empty()) return;
  const bool computes = instruction >= 0 && computes_[static_cast<size_t>(instruction)] != 0;
  tracks_[static_cast<size_t>(queue)].instruction(step_, rank_.training != nullptr, computes, batch_, instruction);
}

hal::MessageWaits* Executor::message_waits(int32_t queue) {
  return waits_.empty() ? nullptr : &waits_[static_cast<size_t>(queue)];
}

void Executor::ran(int32_t instruction, Clock::time_point begin, Clock::time_point end, int64_t cpu_ns) {
  last_cpu_ns_ = cpu_ns;
  if (profile_ != nullptr) profile_->add(instruction, begin, end, cpu_ns);
  if (trace_ != nullptr) trace_->add(instruction, begin, end);
}

void Executor::failed(int32_t queue, int32_t instruction, Status failure, const std::vector<int32_t>& positions) {
  std::string text = failure.error().message;
  // Who waits without result is rarely who is to blame: say where this rank's other streams are.
  if (failure.error().code == "R0302" || instruction < 0)
    for (size_t other = 0; other < positions.size(); ++other) {
      if (static_cast<int32_t>(other) == queue) continue;
      const int32_t at = positions[other];
      text +=
          "\n  stream " + rank_.plan->streams[other].name + ": " +
          (at < 0 ? std::string("done or not begun") : "at " + describe_instruction(*rank_.bundle, *rank_.plan, at));
    }
  stop_.raise(Status::failure(
      failure.error().code,
      "rank " + std::to_string(rank_.plan->rank) + ", " + noun_ + " " + std::to_string(step_) +
          (instruction < 0 ? "" : ", " + describe_instruction(*rank_.bundle, *rank_.plan, instruction)) + ": " + text));
}

int64_t Executor::scratch_high_water() {
  std::atomic<int64_t> total{0};
  rank_.device().on_each_thread([&total] { total += kernels::scratch_high_water(); });
  return total;
}

}  // namespace piper::exec
