#include "compiler/emit/lives.h"

#include <algorithm>

#include "compiler/emit/stream_clocks.h"

namespace piper::emit {
namespace {

// A message that may still be on its way.
struct Held {
  size_t soft = 0;    // index into Lives::soft
  size_t passes = 0;  // since it was issued
};

}  // namespace

Lives lives_of(const Trace& trace, const DataOrder& order, std::span<const int32_t> buffers, size_t num_streams) {
  Lives lives;
  std::vector<std::vector<size_t>> messages(trace.size());  // [instruction] soft ends of the lives that end there
  for (const int32_t buffer : buffers) {
    const DataOrder::Uses& uses = order.uses[buffer];
    lives.hard.push_back({uses.first, uses.last + 1, 0});
    const std::span<const uint32_t> closing = order.closing_of(buffer);
    if (std::all_of(closing.begin(), closing.end(), [&](uint32_t i) { return trace.is_run(i); })) continue;
    messages[uses.last].push_back(lives.soft.size());
    lives.soft.emplace_back().life = lives.hard.size() - 1;
    lives.soft.back().ends.fill(trace.size());
  }
  if (lives.soft.empty()) return lives;
  StreamClocks clocks(trace, num_streams);
  std::vector<Held> held;
  std::vector<uint32_t> after;
  for (uint32_t i = 0; i < trace.size(); ++i) {
    const int32_t stream = trace.stream_of(i);
    const std::span<const uint32_t> needs = order.needs_of(i);
    after.assign(needs.begin(), needs.end());
    clocks.order(stream, after, [](uint32_t) {});
    // A message's own stream knows that it is through, the runs that would take its bytes do not.
    const auto through = [&](uint32_t j) {
      return clocks.knows(stream, j) && (trace.is_run(j) || trace.stream_of(j) != stream);
    };
    if (trace.is_run(i))
      std::erase_if(held, [&](const Held& message) {
        Lives::SoftEnds& soft = lives.soft[message.soft];
        const std::span<const uint32_t> closing = order.closing_of(buffers[soft.life]);
        if (!std::all_of(closing.begin(), closing.end(), through)) return false;
        std::fill(soft.ends.begin() + static_cast<ptrdiff_t>(message.passes), soft.ends.end(), i);
        return true;
      });
    clocks.advance(i);
    if (trace.instructions[i].pass) {
      for (Held& message : held) lives.soft[message.soft].ends[message.passes++] = i + 1;
      std::erase_if(held, [](const Held& message) { return message.passes == kMostPatience; });
    }
    for (const size_t soft : messages[i]) held.push_back({soft});
  }
  return lives;
}

}  // namespace piper::emit
