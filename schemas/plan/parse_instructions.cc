// The instructions of a rank plan: each names what was declared before, and its ranges must lie inside their buffers.
#include "schemas/plan/check_collectives.h"
#include "schemas/plan/rank_plan_parser.h"

namespace piper::plan {

void RankPlanParser::instruction() {
  auto& instruction = plan_.instructions.emplace_back();
  (void)reader_.peek();
  instruction_at_ = reader_.position();
  reader_.open_object();
  const auto kind = reader_.first_key();
  if (kind == "run") instruction.action = launch<Run>();
  else if (kind == "send") instruction.action = message<Send>();
  else if (kind == "recv") instruction.action = message<Recv>();
  else if (kind == "wait") instruction.action = Wait{resolve(event_index_, "event")};
  else if (kind == "record") instruction.action = Record{resolve(event_index_, "event")};
  else if (kind == "all_reduce") instruction.action = all_reduce();
  else if (kind == "reduce_scatter") instruction.action = reduce_scatter();
  else if (kind == "all_gather") instruction.action = all_gather();
  else if (kind == "all_to_all") instruction.action = all_to_all();
  else if (kind == "update") instruction.action = update();
  else reader_.fail(kSyntax, instruction_at_, "unknown instruction " + in_quotes(kind));
  reader_.key("stream");
  instruction.stream = resolve(stream_index_, "stream");
  if (reader_.optional_key("at")) instruction.provenance = resolve(shared_.provenance, "provenance entry");
  reader_.close_object();
}

// A run or an update: a program, what its slots are bound to, and its workspace.
template <class Launch>
Launch RankPlanParser::launch() {
  Launch run;
  run.program = resolve(shared_.programs, "program");
  reader_.key("args");
  run.arguments = resolve(argument_index_, "argument list");
  if (!reader_.ok()) return run;
  const auto& program = (*shared_.all_programs)[static_cast<size_t>(run.program)];
  run.workspace = optional("workspace", program.workspace_bytes);
  if (run.workspace.buffer < 0 && program.workspace_bytes > 0)
    reader_.fail(kRange, instruction_at_, "program " + in_quotes(program.name) + " needs a workspace");
  if (check_arguments(run.program, run.arguments, instruction_at_))
    need_multiple(run.workspace, shared_.alignments[static_cast<size_t>(run.program)].back(), instruction_at_);
  return run;
}

bool RankPlanParser::check_arguments(int32_t program_index, int32_t arguments, size_t at) {
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

template <class Message>
Message RankPlanParser::message() {
  Message message;
  message.data = range();
  const size_t at = at_;
  message.count = at_least_zero("count");
  message.dtype = dtype();
  need(message.data, tensor_bytes(message.dtype, {message.count}, at), at);
  need_multiple(message.data, dtype_bytes(message.dtype), at);
  reader_.key("channel");
  message.channel = resolve(channel_index_, "channel");
  return message;
}

// The three element types of a sum.
SumTypes RankPlanParser::summed() {
  SumTypes types = dtype();
  types.message = optional_dtype("message", types.data);
  types.sum = optional_dtype("sum", types.data);
  reader_.key("op");
  const size_t at = reader_.position();
  if (const auto op = reader_.string(); op != "sum")
    reader_.fail(kSyntax, at, "unknown reduction " + in_quotes(op) + "; sum is the one there is");
  return types;
}

template <class Collective>
Collective RankPlanParser::over_ranks(Collective collective) {
  reader_.key("communicator");
  collective.communicator = resolve(communicator_index_, "communicator");
  if (!reader_.ok()) return collective;
  if (const auto wrong = misfit(plan_, collective); !wrong.empty()) reader_.fail(kRange, instruction_at_, wrong);
  return collective;
}

AllReduce RankPlanParser::all_reduce() {
  AllReduce reduce;
  reduce.data = range();
  reduce.count = at_least_zero("count");
  reduce.types = summed();
  return over_ranks(reduce);
}

ReduceScatter RankPlanParser::reduce_scatter() {
  ReduceScatter reduce;
  reduce.data = range();
  if (reader_.optional_key("out")) reduce.out = range();
  reduce.count = at_least_zero("count");
  reduce.types = summed();
  return over_ranks(reduce);
}

AllGather RankPlanParser::all_gather() {
  AllGather gather;
  gather.data = range();
  if (reader_.optional_key("data")) {
    gather.part = gather.data;
    gather.data = range();
  }
  gather.count = at_least_zero("count");
  gather.dtype = dtype();
  return over_ranks(gather);
}

AllToAll RankPlanParser::all_to_all() {
  AllToAll exchange;
  exchange.send = range();
  exchange.recv = range("recv");
  exchange.count = at_least_zero("count");
  exchange.dtype = dtype();
  if (reader_.optional_key("send_counts")) {
    exchange.send_counts = range();
    exchange.recv_counts = range("recv_counts");
    exchange.row = at_least_zero("row");
  }
  return over_ranks(exchange);
}

Update RankPlanParser::update() {
  auto update = launch<Update>();
  reader_.key("group");
  const size_t at = reader_.position();
  update.group = reader_.small_integer();
  if (update.group < 0) reader_.fail(kRange, at, "group is negative");
  return update;
}

}  // namespace piper::plan
