#include "tools/piper_plan/subject.h"

namespace piper::tools {
namespace {

using namespace plan;

class SubjectOf {
 public:
  explicit SubjectOf(const RankPlan& plan) : plan_(plan) {}

  Subject operator()(const Run& run) const { return {arguments(run.arguments), "", run.program}; }
  Subject operator()(const Update& update) const { return {arguments(update.arguments), "", update.program}; }
  Subject operator()(const Send& send) const { return message(send.data, send.channel, send.bytes()); }
  Subject operator()(const Recv& recv) const { return message(recv.data, recv.channel, recv.bytes()); }
  Subject operator()(const AllReduce& sum) const { return collective(sum.data, sum.communicator, sum.bytes(), false); }
  Subject operator()(const ReduceScatter& sum) const { return collective(sum.data, sum.communicator, sum.bytes()); }
  Subject operator()(const AllGather& gather) const {
    return collective(gather.data, gather.communicator, gather.bytes());
  }
  Subject operator()(const AllToAll& all) const { return collective(all.send, all.communicator, all.bytes()); }
  Subject operator()(const Record& record) const { return {plan_.events[static_cast<size_t>(record.event)]}; }
  Subject operator()(const Wait& wait) const { return {plan_.events[static_cast<size_t>(wait.event)]}; }

 private:
  std::string arguments(int32_t index) const { return plan_.arguments[static_cast<size_t>(index)].name; }
  std::string buffer(const BufferRange& where) const { return plan_.buffers[static_cast<size_t>(where.buffer)].name; }
  Subject message(const BufferRange& data, int32_t channel, int64_t bytes) const {
    return {buffer(data), plan_.channels[static_cast<size_t>(channel)].name, -1, channel, bytes};
  }
  Subject collective(const BufferRange& data, int32_t communicator, int64_t bytes, bool parts = true) const {
    const auto& group = plan_.communicators[static_cast<size_t>(communicator)];
    return {buffer(data), group.name, -1, -1, parts ? bytes * static_cast<int64_t>(group.ranks.size()) : bytes};
  }

  const RankPlan& plan_;
};

}  // namespace

Subject subject_of(const RankPlan& plan, const Action& action) { return std::visit(SubjectOf(plan), action); }

}  // namespace piper::tools
