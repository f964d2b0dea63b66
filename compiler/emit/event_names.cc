#include "compiler/emit/event_names.h"

namespace piper::emit {
namespace {

struct Text {
  const plan::RankPlan& plan;
  const std::string& buffer(const plan::BufferRange& range) const { return plan.buffers[range.buffer].name; }

  std::string operator()(const plan::Run& a) const { return plan.arguments[a.arguments].name; }
  std::string operator()(const plan::Send& a) const {
    return "sent " + buffer(a.data) + " " + plan.channels[a.channel].name;
  }
  std::string operator()(const plan::Recv& a) const {
    return "got " + buffer(a.data) + " " + plan.channels[a.channel].name;
  }
  std::string operator()(const plan::AllReduce& a) const { return "reduced " + buffer(a.data); }
  std::string operator()(const plan::ReduceScatter& a) const { return "reduced " + buffer(a.data); }
  std::string operator()(const plan::AllGather& a) const { return "gathered " + buffer(a.data); }
  std::string operator()(const plan::AllToAll& a) const { return "exchanged " + buffer(a.recv); }
  std::string operator()(const plan::Update& a) const { return plan.arguments[a.arguments].name; }
  std::string operator()(const plan::Record&) const { return {}; }
  std::string operator()(const plan::Wait&) const { return {}; }
};

}  // namespace

std::string EventNames::name(const plan::Action& action) {
  std::string text = std::visit(Text{plan_}, action);
  const int count = ++used_[text];
  if (count > 1) text += " #" + std::to_string(count);
  return text;
}

}  // namespace piper::emit
