#include "compiler/search/live_bytes.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "schemas/plan/actions.h"
#include "schemas/verify/buffer_slots.h"

namespace piper::search {
namespace {

constexpr size_t kNever = ~size_t{0};

struct Uses {
  std::vector<size_t> first, last;  // [buffer] instructions that name it
};
Uses uses_of(const plan::RankPlan& plan) {
  Uses uses;
  uses.first.assign(plan.buffers.size(), kNever);
  uses.last = uses.first;
  for (size_t i = 0; i < plan.instructions.size(); ++i)
    verify::each_buffer(plan, plan.instructions[i].action, [&](int32_t buffer) {
      const auto b = static_cast<size_t>(buffer);
      if (uses.first[b] == kNever) uses.first[b] = i;
      uses.last[b] = i;
    });
  return uses;
}

std::optional<plan::Pass> pass_of(const plan::Bundle& bundle, const plan::Instruction& instruction) {
  const int32_t program = plan::launch_of(instruction.action).program;
  if (program < 0) return std::nullopt;
  const auto& of = bundle.programs[static_cast<size_t>(program)].of;
  return of ? std::optional(of->pass) : std::nullopt;
}

}  // namespace

int64_t most_live_in_passes(const plan::Bundle& bundle, const plan::RankPlan& plan) {
  const Uses uses = uses_of(plan);
  std::vector<int64_t> more(plan.instructions.size() + 1, 0);  // bytes in use at an instruction, above the one before
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    if (plan.buffers[b].cls != plan::BufferClass::kArena || uses.first[b] == kNever) continue;
    more[uses.first[b]] += plan.buffers[b].bytes;
    more[uses.last[b] + 1] -= plan.buffers[b].bytes;
  }
  int64_t live = 0, most = 0;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    live += more[i];
    if (pass_of(bundle, plan.instructions[i])) most = std::max(most, live);
  }
  return most;
}

int64_t bytes_between_halves(const plan::Bundle& bundle, const plan::RankPlan& plan) {
  size_t inputs_done = kNever, weights_begin = kNever, weights_done = kNever;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const std::optional<plan::Pass> pass = pass_of(bundle, plan.instructions[i]);
    if (pass == plan::Pass::kBackwardInput) inputs_done = i;
    if (pass != plan::Pass::kBackwardWeight) continue;
    if (weights_begin == kNever) weights_begin = i;
    weights_done = i;
  }
  if (weights_begin == kNever || inputs_done == kNever || weights_begin < inputs_done) return 0;
  const Uses uses = uses_of(plan);
  int64_t bytes = 0;
  for (size_t b = 0; b < plan.buffers.size(); ++b)
    if (plan.buffers[b].cls == plan::BufferClass::kArena && uses.first[b] <= inputs_done &&
        uses.last[b] >= weights_begin && uses.last[b] <= weights_done)
      bytes += plan.buffers[b].bytes;
  return bytes;
}

}  // namespace piper::search
