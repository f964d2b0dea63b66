// Binding instructions at load: one function per kind, defined in the file of that kind, and what
// they need. Used by load_rank.cc alone.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "runtime/exec/gradient_capture.h"
#include "runtime/exec/instruction.h"
#include "runtime/hal/transport.h"
#include "runtime/hal/counter.h"
#include "runtime/kernels/kernel.h"
#include "schemas/plan/plan.h"

namespace piper::exec {

// The kernels of one program on one argument list and workspace; shared by the runs that agree in all.
struct BoundProgram {
  const plan::Program* program = nullptr;
  std::vector<std::unique_ptr<kernels::PreparedKernel>> kernels;
};

struct PrepareContext {
  const plan::Bundle* bundle = nullptr;
  const plan::RankPlan* plan = nullptr;
  std::vector<std::byte*> buffer_base;  // by buffer
  hal::Transport* transport = nullptr;
  std::vector<int32_t> group_channels;    // by communicator of the plan: this one and the next are its own
  hal::Counter* events = nullptr;         // by event of the plan
  std::vector<std::byte*> group_scratch;  // by stream
  std::map<std::tuple<int32_t, int32_t, int32_t, int64_t>, std::unique_ptr<BoundProgram>>* programs = nullptr;
  GradientCapture* gradients = nullptr;  // nullptr: gradients are not saved

  // nullptr for a range without buffer.
  std::byte* at(const plan::BufferRange& range) const {
    return range.buffer < 0 ? nullptr : buffer_base.at(static_cast<size_t>(range.buffer)) + range.offset;
  }
};

// The kernels of a program on the ranges of an argument list. `numbers`: for an update's. Errors of kernels::bind(),
// R0404.
Result<std::unique_ptr<BoundProgram>> bind_program(int32_t index, int32_t arguments, const plan::BufferRange& workspace,
                                                   const PrepareContext& context,
                                                   const kernels::OptimizerNumbers* numbers);
// R0403, R0406.
Status run_program(const plan::Bundle& bundle, const BoundProgram& program);

using Prepared = Result<std::unique_ptr<PreparedInstruction>>;
// R0404: the plan asks for what this runtime cannot do. R0401 and R0402: kernels::bind().
Prepared prepare_run(const plan::Run& run, int32_t stream, PrepareContext& context);
Prepared prepare_send(const plan::Send& send, int32_t stream, PrepareContext& context);
Prepared prepare_recv(const plan::Recv& recv, int32_t stream, PrepareContext& context);
Prepared prepare_all_reduce(const plan::AllReduce& all_reduce, int32_t stream, PrepareContext& context);
Prepared prepare_reduce_scatter(const plan::ReduceScatter& reduce_scatter, int32_t stream, PrepareContext& context);
Prepared prepare_all_gather(const plan::AllGather& all_gather, int32_t stream, PrepareContext& context);
Prepared prepare_all_to_all(const plan::AllToAll& all_to_all, int32_t stream, PrepareContext& context);
Prepared prepare_record(const plan::Record& record, int32_t stream, PrepareContext& context);
Prepared prepare_wait(const plan::Wait& wait, int32_t stream, PrepareContext& context);
Prepared prepare_update(const plan::Update& update, int32_t stream, PrepareContext& context);

// The communicator of a collective, which contains this rank. R0404 where it does not.
Result<const plan::Communicator*> group_of(int32_t communicator, const PrepareContext& context);
// The one type of a sum; R0404 where it has several, or one that CPU ranks cannot add.
Result<DType> summed_type(const plan::SumTypes& types);
// A channel of the plan; R0404 where its id is none of a plan.
Result<plan::Channel> plan_channel(int32_t index, const PrepareContext& context);

}  // namespace piper::exec
