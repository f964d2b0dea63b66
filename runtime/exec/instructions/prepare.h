// Making commands of instructions at load: one function per kind, defined in the file of that kind, and what they need.
// Used by load_rank.cc alone.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "runtime/hal/collectives.h"
#include "runtime/hal/device.h"
#include "runtime/kernels/kernel.h"
#include "schemas/plan/plan.h"

namespace piper::exec {

// The kernels of one program on one argument list and workspace; shared by the runs that agree in all.
struct BoundProgram {
  const plan::Program* program = nullptr;
  std::vector<std::unique_ptr<kernels::PreparedKernel>> kernels;
};
using BoundPrograms = std::map<std::tuple<int32_t, int32_t, int32_t, int64_t>, std::unique_ptr<BoundProgram>>;

struct PrepareContext {
  const plan::Bundle* bundle = nullptr;
  const plan::RankPlan* plan = nullptr;
  hal::Device* device = nullptr;
  const kernels::Library* kernels = nullptr;
  hal::Collectives* collectives = nullptr;
  std::vector<hal::Group*> groups;                             // by communicator of the plan
  std::vector<std::unique_ptr<hal::Event>>* events = nullptr;  // by event of the plan
  std::vector<hal::Address> buffers;                           // by buffer of the plan
  std::vector<hal::Address> scratch;                           // of sums, by stream
  BoundPrograms* programs = nullptr;

  // Nowhere for a range without buffer.
  hal::Address at(const plan::BufferRange& range) const {
    return range.buffer < 0 ? hal::Address() : buffers.at(static_cast<size_t>(range.buffer)) + range.offset;
  }
  hal::Group& group(int32_t communicator) const { return *groups.at(static_cast<size_t>(communicator)); }
  const plan::Channel& channel(int32_t index) const { return plan->channels.at(static_cast<size_t>(index)); }
};

// A command that runs a program.
class ProgramCommand : public hal::Command {
 public:
  ProgramCommand(const plan::Bundle& bundle, const BoundProgram& program) : bundle_(bundle), program_(program) {}
  Status issue(hal::Queue& queue, const hal::Submission& submission) override;
  const char* prevents_capture() const override;
  // Calls [first, end) alone.
  Status issue_calls(hal::Queue& queue, size_t first, size_t end) const;
  // What its kernels found wrong in their data, where it is theirs; `record` is a copy of the library's. R0403, R0406.
  Status fault(const kernels::Library& library, const std::byte* record) const;
  const plan::Program& program() const { return *program_.program; }

 private:
  const plan::Bundle& bundle_;
  const BoundProgram& program_;
};

// The kernels of a program on the ranges of an argument list. Errors of
// kernels::Library::bind(), R0404.
Result<std::unique_ptr<BoundProgram>> bind_program(int32_t index, int32_t arguments, const plan::BufferRange& workspace,
                                                   const PrepareContext& context,
                                                   const kernels::TrainingNumbers& numbers);
// R0404: the plan asks for what this runtime cannot do. R0401 and R0402: kernels::Library::bind().
hal::MadeCommand prepare_run(const plan::Run& run, int32_t stream, PrepareContext& context);
hal::MadeCommand prepare_send(const plan::Send& send, int32_t stream, PrepareContext& context);
hal::MadeCommand prepare_recv(const plan::Recv& recv, int32_t stream, PrepareContext& context);
hal::MadeCommand prepare_all_reduce(const plan::AllReduce& all_reduce, int32_t stream, PrepareContext& context);
hal::MadeCommand prepare_reduce_scatter(const plan::ReduceScatter& reduce_scatter, int32_t stream,
                                        PrepareContext& context);
hal::MadeCommand prepare_all_gather(const plan::AllGather& all_gather, int32_t stream, PrepareContext& context);
hal::MadeCommand prepare_all_to_all(const plan::AllToAll& all_to_all, int32_t stream, PrepareContext& context);
hal::MadeCommand prepare_record(const plan::Record& record, int32_t stream, PrepareContext& context);
hal::MadeCommand prepare_wait(const plan::Wait& wait, int32_t stream, PrepareContext& context);
hal::MadeCommand prepare_update(const plan::Update& update, int32_t stream, PrepareContext& context);

}  // namespace piper::exec
