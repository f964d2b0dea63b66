#include "runtime/exec/checks/call_by_call.h"

#include <utility>

#include "runtime/trace/digest_values.h"
#include "schemas/base/check.h"
#include "schemas/plan/kernels.h"
#include "schemas/plan/own_part.h"

namespace piper::exec {

namespace {

// One call of a program.
class CallCommand : public hal::Command {
 public:
  CallCommand(const ProgramCommand& program, size_t call) : program_(program), call_(call) {}
  Status issue(hal::Queue& queue, const hal::Submission&) override {
    return program_.issue_calls(queue, call_, call_ + 1);
  }

 private:
  const ProgramCommand& program_;
  size_t call_;
};

// What a message or collective brings; rows that are counted at run time only partly, which is left out.
struct BroughtTo {
  const LoadedRank& rank;
  int64_t members(int32_t communicator) const {
    return static_cast<int64_t>(rank.plan->communicators.at(static_cast<size_t>(communicator)).ranks.size());
  }
  using Values = std::vector<PlacedValue>;
  Values at(const plan::BufferRange& where, DType dtype, int64_t count) const {
    return {dense_value(rank.at(where), dtype, count)};
  }
  Values operator()(const plan::Recv& a) const { return at(a.data, a.dtype, a.count); }
  Values operator()(const plan::AllReduce& a) const { return at(a.data, a.types.data, a.count); }
  Values operator()(const plan::ReduceScatter& a) const { return at(own_part(*rank.plan, a), a.types.data, a.count); }
  Values operator()(const plan::AllGather& a) const { return at(a.data, a.dtype, a.count * members(a.communicator)); }
  Values operator()(const plan::AllToAll& a) const {
    if (a.row > 0) return {};
    return at(a.recv, a.dtype, a.count * members(a.communicator));
  }
  template <class Other>
  Values operator()(const Other&) const {
    return {};
  }
};

struct AddedBy {
  const LoadedRank& rank;
  std::vector<PlacedValue> operator()(const plan::AllReduce& a) const {
    return {dense_value(rank.at(a.data), a.types.data, a.count)};
  }
  std::vector<PlacedValue> operator()(const plan::ReduceScatter& a) const {
    return {dense_value(rank.at(a.data), a.types.data, a.count * BroughtTo{rank}.members(a.communicator))};
  }
  template <class Other>
  std::vector<PlacedValue> operator()(const Other&) const {
    return {};
  }
};

struct Bindings {
  int32_t program = -1, arguments = -1;
  plan::BufferRange workspace;
};
std::optional<Bindings> bindings_of(const plan::Action& action) {
  if (const auto* run = std::get_if<plan::Run>(&action)) return Bindings{run->program, run->arguments, run->workspace};
  if (const auto* update = std::get_if<plan::Update>(&action))
    return Bindings{update->program, update->arguments, update->workspace};
  return std::nullopt;
}

std::vector<PlacedValue> placed(const LoadedRank& rank, const Bindings& bindings,
                                const std::vector<plan::Operand>& operands) {
  const plan::ArgumentList& list = rank.plan->arguments.at(static_cast<size_t>(bindings.arguments));
  std::vector<PlacedValue> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    const plan::Operand& operand = operands[i];
    if (operand.slot == plan::Operand::kAbsent) continue;
    const plan::BufferRange& base = operand.slot == plan::Operand::kWorkspace
                                        ? bindings.workspace
                                        : list.arguments.at(static_cast<size_t>(operand.slot));
    values.push_back({rank.at(base) + operand.offset, operand, static_cast<int32_t>(i)});
  }
  return values;
}

}  // namespace

Result<std::unique_ptr<CallByCall>> CallByCall::make(const LoadedRank& rank) {
  auto made = std::make_unique<CallByCall>();
  const auto add = [&](StepPiece piece, int32_t stream, hal::Command& command) -> Status {
    PIPER_ASSIGN(piece.recording, rank.device().record({{stream, piece.instruction, &command}}));
    made->pieces_.push_back(std::move(piece));
    return {};
  };
  for (size_t i = 0; i < rank.commands.size(); ++i) {
    const plan::Instruction& instruction = rank.plan->instructions[i];
    const auto index = static_cast<int32_t>(i);
    // Pieces are done one after the other: nothing is left for events to order.
    if (std::holds_alternative<plan::Record>(instruction.action) ||
        std::holds_alternative<plan::Wait>(instruction.action))
      continue;
    const auto bindings = bindings_of(instruction.action);
    if (!bindings) {
      StepPiece piece;
      piece.instruction = index;
      piece.inputs = std::visit(AddedBy{rank}, instruction.action);
      piece.outputs = std::visit(BroughtTo{rank}, instruction.action);
      PIPER_RETURN_IF_ERROR(add(std::move(piece), instruction.stream, *rank.commands[i]));
      continue;
    }
    const auto* program = dynamic_cast<const ProgramCommand*>(rank.commands[i].get());
    PIPER_CHECK(program != nullptr, "instruction ", index, " runs no program");
    const plan::Program& calls = rank.bundle->programs.at(static_cast<size_t>(bindings->program));
    for (size_t c = 0; c < calls.calls.size(); ++c) {
      const plan::KernelCall& call = calls.calls[c];
      StepPiece piece;
      piece.instruction = index;
      piece.call = static_cast<int32_t>(c);
      piece.kernel = &call;
      piece.inputs = placed(rank, *bindings, call.inputs);
      piece.outputs = placed(rank, *bindings, call.outputs);
      const plan::KernelInfo* info = plan::find_kernel(call.kernel);
      piece.reads_outputs = call.accumulate || (info != nullptr && info->reads_outputs);
      piece.command = std::make_unique<CallCommand>(*program, c);
      hal::Command& command = *piece.command;
      PIPER_RETURN_IF_ERROR(add(std::move(piece), instruction.stream, command));
    }
  }
  return made;
}

PlacedValue dense_value(hal::Address at, DType dtype, int64_t count) {
  PlacedValue value{at, {}, 0};
  value.type.slot = 0;
  value.type.dtype = dtype;
  value.type.shape = {count};
  value.type.strides = {1};
  return value;
}

Result<std::vector<std::byte>> read_value(hal::Device& device, const PlacedValue& value) {
  std::vector<std::byte> bytes(static_cast<size_t>(trace::extent_bytes(value.type)));
  if (!bytes.empty()) PIPER_RETURN_IF_ERROR(device.read(bytes.data(), value.at, static_cast<int64_t>(bytes.size())));
  return bytes;
}

}  // namespace piper::exec
