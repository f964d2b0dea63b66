#include "compiler/emit/lives.h"

#include <algorithm>

#include "compiler/emit/stream_clocks.h"
#include "schemas/plan/held_messages.h"

namespace piper::emit {

std::vector<plan::Life> lives_of(const Trace& trace, const DataOrder& order, std::span<const int32_t> buffers,
                                 size_t num_streams, int patience) {
  std::vector<plan::Life> lives;
  std::vector<std::vector<size_t>> messages(patience > 0 ? trace.size() : 0);  // [instruction] lives that end there
  bool any = false;
  for (const int32_t buffer : buffers) {
    const DataOrder::Uses& uses = order.uses[buffer];
    lives.push_back({uses.first, uses.last + 1, 0});
    if (patience == 0) continue;
    const std::span<const uint32_t> closing = order.closing_of(buffer);
    if (std::all_of(closing.begin(), closing.end(), [&](uint32_t i) { return trace.is_run(i); })) continue;
    messages[uses.last].push_back(lives.size() - 1);
    lives.back().end = trace.size();
    any = true;
  }
  if (!any) return lives;
  StreamClocks clocks(trace, num_streams);
  plan::HeldMessages<size_t> held(patience);
  std::vector<uint32_t> after;
  for (uint32_t i = 0; i < trace.size(); ++i) {
    const int32_t stream = trace.stream_of(i);
    const std::span<const uint32_t> needs = order.needs_of(i);
    after.assign(needs.begin(), needs.end());
    clocks.order(stream, after, [](uint32_t) {});
    // A message's own stream knows that it is through, the runs that would take its bytes do not.
    if (trace.is_run(i))
      held.at_run(
          i,
          [&](size_t life) {
            const std::span<const uint32_t> closing = order.closing_of(buffers[life]);
            return std::all_of(closing.begin(), closing.end(), [&](uint32_t j) { return clocks.knows(stream, j); });
          },
          [&](size_t life) { lives[life].end = i; });
    clocks.advance(i);
    for (const size_t life : messages[i]) held.put(life, i);
  }
  return lives;
}

}  // namespace piper::emit
