// The instructions of a rank plan: each names what was declared before, and its ranges must lie inside their buffers.
#include <algorithm>
#include <iterator>

#include "schemas/plan/check_collectives.h"
#include "schemas/plan/rank_plan_parser.h"

namespace piper::plan {
namespace {

// A kind of instruction by its number in kActionNames.
template <size_t kNext = 0>
void emplace_kind(Action& action, size_t index) {
  if constexpr (kNext < std::variant_size_v<Action>) {
    if (index == kNext) action.emplace<kNext>();
    else emplace_kind<kNext + 1>(action, index);
  }
}

}  // namespace

void RankPlanReader::action(Action& action) {
  const size_t at = reader_.position();
  const auto kind = reader_.first_key();
  const auto known = std::find(std::begin(kActionNames), std::end(kActionNames), kind);
  if (known == std::end(kActionNames)) {
    reader_.fail(kSyntax, at, "unknown instruction " + in_quotes(kind));
    return;
  }
  emplace_kind(action, static_cast<size_t>(known - std::begin(kActionNames)));
  key_was_read();
  std::visit(
      [&](auto& of_kind) {
        fields(*this, of_kind);
        if (reader_.ok()) check(of_kind, at);
      },
      action);
}

// A run or an update: a program, what its slots are bound to, and its workspace.
void RankPlanReader::check_launch(const auto& launch, size_t at) {
  const auto& program = (*shared_.all_programs)[static_cast<size_t>(launch.program)];
  need(launch.workspace, program.workspace_bytes, at);
  if (launch.workspace.buffer < 0 && program.workspace_bytes > 0)
    reader_.fail(kRange, at, "program " + in_quotes(program.name) + " needs a workspace");
  if (check_arguments(launch.program, launch.arguments, at))
    need_multiple(launch.workspace, shared_.alignments[static_cast<size_t>(launch.program)].back(), at);
}

bool RankPlanReader::check_arguments(int32_t program_index, int32_t arguments, size_t at) {
  const auto& program = (*shared_.all_programs)[static_cast<size_t>(program_index)];
  const auto& list = plan_.arguments[static_cast<size_t>(arguments)];
  if (list.arguments.size() != program.slots.size())
    return reader_.fail(kArguments, at,
                        "argument list " + in_quotes(list.name) + " has " + std::to_string(list.arguments.size()) +
                            " entries, program " + in_quotes(program.name) + " has " +
                            std::to_string(program.slots.size()) + " slots");
  const auto& alignments = shared_.alignments[static_cast<size_t>(program_index)];
  for (size_t i = 0; i < list.arguments.size(); ++i) {
    const auto& where = list.arguments[i];
    const auto& slot = program.slots[i];
    if (!range_inside(where.offset, slot.bytes, buffer(where).bytes))
      reader_.fail(kRange, at,
                   "slot " + in_quotes(slot.name) + " of program " + in_quotes(program.name) + " needs " +
                       std::to_string(slot.bytes) + " bytes, buffer " + in_quotes(buffer(where).name) + " has " +
                       std::to_string(buffer(where).bytes - where.offset));
    else if (where.offset % alignments[i] != 0)
      reader_.fail(kRange, at,
                   "slot " + in_quotes(slot.name) + " of program " + in_quotes(program.name) + ": " +
                       no_multiple(where.offset, alignments[i], buffer(where).name));
  }
  return reader_.ok();
}

void RankPlanReader::check_message(const auto& message, size_t at) {
  need(message.data, tensor_bytes(message.dtype, {message.count}, at), at);
  need_multiple(message.data, dtype_bytes(message.dtype), at);
}

void RankPlanReader::check_parts(const auto& collective, size_t at) {
  if (const auto wrong = misfit(plan_, collective); !wrong.empty()) reader_.fail(kRange, at, wrong);
}

}  // namespace piper::plan
