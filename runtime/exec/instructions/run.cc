// `run`: the kernels of a chunk program, one after the other.
#include <exception>

#include "runtime/exec/instructions/prepare.h"
#include "schemas/base/check.h"

namespace piper::exec {

namespace {

std::string origin_text(const plan::Bundle& bundle, const std::string& key) {
  for (const plan::ProvenanceEntry& entry : bundle.provenance)
    if (entry.key == key) return entry.text;
  return key;
}

std::string call_text(const plan::Bundle& bundle, const plan::Program& program, size_t index) {
  const plan::KernelCall& call = program.calls[index];
  std::string text = "call " + std::to_string(index) + " of " + program.name + ", kernel " + call.kernel.text();
  if (!call.origin.empty()) text += " (" + origin_text(bundle, call.origin) + ")";
  return text;
}

}  // namespace

Status ProgramCommand::issue(hal::Queue& queue, const hal::Submission&) {
  return issue_calls(queue, 0, program_.kernels.size());
}

const char* ProgramCommand::prevents_capture() const {
  for (const auto& kernel : program_.kernels)
    if (const char* reason = kernel->waits_for_host()) return reason;
  return nullptr;
}

// R0403, R0406.
Status ProgramCommand::issue_calls(hal::Queue& queue, size_t first, size_t end) const {
  size_t at = first;
  try {
    for (; at < end; ++at) program_.kernels[at]->run(queue);
  } catch (const InternalError&) {
    throw;
  } catch (const kernels::OverCapacity& over) {
    return Status::failure("R0406", call_text(bundle_, *program_.program, at) + ": " + over.what());
  } catch (const std::exception& failure) {
    // Libraries append a stack trace, which says nothing about the model.
    std::string what = failure.what();
    what = what.substr(0, what.find('\n'));
    return Status::failure("R0403", call_text(bundle_, *program_.program, at) + ": " + what);
  }
  return {};
}

Status ProgramCommand::fault(const kernels::Library& library, const std::byte* record) const {
  for (size_t at = 0; at < program_.kernels.size(); ++at)
    if (program_.kernels[at]->wrote(record))
      return library.read_fault(record).with_context(call_text(bundle_, *program_.program, at));
  return {};
}

Result<std::unique_ptr<BoundProgram>> bind_program(int32_t index, int32_t arguments,
                                                   const plan::BufferRange& workspace_range,
                                                   const PrepareContext& context,
                                                   const kernels::TrainingNumbers& numbers) {
  const plan::Program& program = context.bundle->programs.at(static_cast<size_t>(index));
  const plan::ArgumentList& list = context.plan->arguments.at(static_cast<size_t>(arguments));
  if (list.arguments.size() != program.slots.size())
    return Status::failure("R0404", "arguments '" + list.name + "' do not fit program '" + program.name + "'");
  const hal::Address workspace = context.at(workspace_range);
  auto bind_operands = [&](const std::vector<plan::Operand>& operands) {
    std::vector<kernels::BoundOperand> bound;
    bound.reserve(operands.size());
    for (const plan::Operand& operand : operands) {
      hal::Address base;
      if (operand.slot == plan::Operand::kWorkspace) base = workspace;
      else if (operand.slot >= 0) base = context.at(list.arguments.at(static_cast<size_t>(operand.slot)));
      bound.push_back({base.nowhere() ? base : base + operand.offset, &operand});
    }
    return bound;
  };
  auto bound = std::make_unique<BoundProgram>();
  bound->program = &program;
  bound->kernels.reserve(program.calls.size());
  for (size_t i = 0; i < program.calls.size(); ++i) {
    const plan::KernelCall& call = program.calls[i];
    auto kernel = context.kernels->bind(call, bind_operands(call.outputs), bind_operands(call.inputs), numbers);
    if (!kernel.ok()) return kernel.take_status().with_context(call_text(*context.bundle, program, i));
    bound->kernels.push_back(std::move(kernel).value());
  }
  return bound;
}

hal::MadeCommand prepare_run(const plan::Run& run, int32_t, PrepareContext& context) {
  auto& bound = (*context.programs)[{run.program, run.arguments, run.workspace.buffer, run.workspace.offset}];
  if (bound == nullptr) {
    PIPER_ASSIGN(bound, bind_program(run.program, run.arguments, run.workspace, context,
                                     {.clip_grad_norm = context.bundle->manifest.clip_grad_norm}));
  }
  return std::unique_ptr<hal::Command>(std::make_unique<ProgramCommand>(*context.bundle, *bound));
}

}  // namespace piper::exec
