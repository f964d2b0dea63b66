#include "schemas/verify/accesses.h"

#include "schemas/plan/own_part.h"

namespace piper::verify {
namespace {

using namespace plan;

struct Collect {
  const Bundle& bundle;
  const RankPlan& plan;
  std::vector<Access>& accesses;

  void add(const BufferRange& where, int64_t bytes, bool reads, bool writes) const {
    if (where.buffer >= 0 && bytes > 0 && (reads || writes)) accesses.push_back({where, bytes, reads, writes});
  }
  void operator()(const Run& run) const { launch(run); }
  void operator()(const Update& update) const { launch(update); }
  template <class Launch>
  void launch(const Launch& run) const {
    const auto& program = bundle.programs.at(static_cast<size_t>(run.program));
    const auto& list = plan.arguments.at(static_cast<size_t>(run.arguments)).arguments;
    add(run.workspace, program.workspace_bytes, false, true);
    for (size_t i = 0; i < program.slots.size(); ++i)
      add(list.at(i), program.slots[i].bytes, program.slots[i].reads, program.slots[i].writes);
  }
  void operator()(const Send& send) const { add(send.data, send.bytes(), true, false); }
  void operator()(const Recv& recv) const { add(recv.data, recv.bytes(), false, true); }
  void operator()(const AllReduce& reduce) const { add(reduce.data, reduce.bytes(), true, true); }
  int64_t members(int32_t communicator) const {
    return static_cast<int64_t>(plan.communicators.at(static_cast<size_t>(communicator)).ranks.size());
  }
  void operator()(const ReduceScatter& reduce) const {
    const int64_t part = reduce.bytes(), all = part * members(reduce.communicator);
    add(reduce.data, all, true, false);
    add(own_part(plan, reduce), part, false, true);
  }
  void operator()(const AllGather& gather) const {
    const int64_t all = gather.bytes() * members(gather.communicator);
    const BufferRange part = own_part(plan, gather);
    add(part, gather.bytes(), true, false);
    if (gather.part.buffer >= 0) return add(gather.data, all, false, true);
    const BufferRange behind{gather.data.buffer, part.offset + gather.bytes()};
    add(gather.data, part.offset - gather.data.offset, false, true);
    add(behind, gather.data.offset + all - behind.offset, false, true);
  }
  void operator()(const AllToAll& exchange) const {
    const int64_t num_members = members(exchange.communicator), all = exchange.bytes() * num_members;
    add(exchange.send, all, true, false);
    add(exchange.recv, all, false, true);
    add(exchange.send_counts, num_members * dtype_bytes(DType::kI64), true, false);
    add(exchange.recv_counts, num_members * dtype_bytes(DType::kI64), true, false);
  }
  void operator()(const Record&) const {}
  void operator()(const Wait&) const {}
};

}  // namespace

void collect_accesses(const Bundle& bundle, const RankPlan& plan, const Action& action, std::vector<Access>& accesses) {
  std::visit(Collect{bundle, plan, accesses}, action);
}

std::vector<Access> reported_by(const plan::RankPlan& plan, const plan::Manifest& manifest) {
  const int64_t number = dtype_bytes(DType::kF32);
  const auto squares = static_cast<int64_t>(plan::num_grad_squares(manifest));
  std::vector<Access> reported = {{plan.loss, number},
                                  {plan.grad_norm, number},
                                  {plan.grad_squares, number * squares},
                                  {plan.dropped, dtype_bytes(DType::kI64)},
                                  {plan.overflow, number}};
  for (const plan::Mean& mean : plan.means) {
    reported.push_back({mean.sum, number});
    reported.push_back({mean.count, number});
  }
  std::erase_if(reported, [](const Access& access) { return access.where.buffer < 0 || access.bytes == 0; });
  for (Access& access : reported) access.reads = true;
  return reported;
}

}  // namespace piper::verify
