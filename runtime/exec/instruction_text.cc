#include "runtime/exec/instruction_text.h"

namespace piper::exec {

namespace {

struct ActionText {
  const plan::Bundle& bundle;
  const plan::RankPlan& plan;
  std::string operator()(const plan::Run& a) const {
    return "run " + bundle.programs.at(static_cast<size_t>(a.program)).name + " on " +
           plan.arguments.at(static_cast<size_t>(a.arguments)).name;
  }
  std::string operator()(const plan::Send& a) const { return "send to rank " + peer(a.channel); }
  std::string operator()(const plan::Recv& a) const { return "recv from rank " + peer(a.channel); }
  std::string peer(int32_t channel) const {
    return std::to_string(plan.channels.at(static_cast<size_t>(channel)).peer);
  }
  std::string on(const char* kind, int32_t communicator) const {
    return kind + (" on " + plan.communicators.at(static_cast<size_t>(communicator)).name);
  }
  std::string operator()(const plan::AllReduce& a) const { return on("all_reduce", a.communicator); }
  std::string operator()(const plan::ReduceScatter& a) const { return on("reduce_scatter", a.communicator); }
  std::string operator()(const plan::AllGather& a) const { return on("all_gather", a.communicator); }
  std::string operator()(const plan::AllToAll& a) const { return on("all_to_all", a.communicator); }
  std::string operator()(const plan::Record& a) const {
    return "record " + plan.events.at(static_cast<size_t>(a.event));
  }
  std::string operator()(const plan::Wait& a) const { return "wait " + plan.events.at(static_cast<size_t>(a.event)); }
  std::string operator()(const plan::Update& a) const {
    return plan.arguments.at(static_cast<size_t>(a.arguments)).name;
  }
};

}  // namespace

std::string action_text(const plan::Bundle& bundle, const plan::RankPlan& plan, int32_t index) {
  return std::visit(ActionText{bundle, plan}, plan.instructions.at(static_cast<size_t>(index)).action);
}

std::string describe_instruction(const plan::Bundle& bundle, const plan::RankPlan& plan, int32_t index) {
  const plan::Instruction& instruction = plan.instructions.at(static_cast<size_t>(index));
  std::string text = "instr " + std::to_string(index) + " " + action_text(bundle, plan, index);
  if (instruction.provenance >= 0 && static_cast<size_t>(instruction.provenance) < bundle.provenance.size())
    text += " (" + bundle.provenance[static_cast<size_t>(instruction.provenance)].text + ")";
  return text;
}

}  // namespace piper::exec
