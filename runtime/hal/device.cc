#include "runtime/hal/device.h"

namespace piper::hal {

std::vector<QueueOptions> queues_of(const plan::RankPlan& plan) {
  std::vector<QueueOptions> queues;
  for (const plan::Stream& stream : plan.streams) queues.push_back({stream.name, stream.priority});
  return queues;
}

}  // namespace piper::hal
