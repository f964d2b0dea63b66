#include "compiler/emit/divide_workspaces.h"

#include <algorithm>
#include <span>
#include <variant>
#include <vector>

#include "schemas/plan/life.h"

namespace piper::emit {
namespace {

constexpr double kWorthwhile = 0.98;  // of the bytes that are alive with one workspace for a stream

// A run or an update with a workspace, and which of the trace's accesses is that of the workspace.
struct Launched {
  uint32_t instruction = 0;
  size_t access = 0;
  int32_t arguments = -1;
};

plan::BufferRange* workspace_of(plan::Action& action) {
  if (auto* run = std::get_if<plan::Run>(&action)) return &run->workspace;
  if (auto* update = std::get_if<plan::Update>(&action)) return &update->workspace;
  return nullptr;
}

int32_t arguments_of(const plan::Action& action) {
  if (const auto* run = std::get_if<plan::Run>(&action)) return run->arguments;
  return std::get<plan::Update>(action).arguments;
}

std::vector<Launched> launched(Trace& trace) {
  std::vector<Launched> found;
  for (uint32_t i = 0; i < trace.size(); ++i) {
    plan::Action& action = trace.instructions[i].instruction.action;
    const plan::BufferRange* const workspace = workspace_of(action);
    if (workspace == nullptr || workspace->buffer < 0) continue;
    const std::span<const Access> accesses = trace.accesses_of(i);
    const auto of_workspace = std::find_if(accesses.begin(), accesses.end(),
                                           [&](const Access& access) { return access.buffer == workspace->buffer; });
    const auto at = static_cast<size_t>(of_workspace - accesses.begin());
    found.push_back({i, trace.instructions[i].first_access + at, arguments_of(action)});
  }
  return found;
}

// From the first access to the last, of what is in the arena and is a workspace, or is none.
std::vector<plan::Life> lives(const plan::RankPlan& plan, const Trace& trace, const std::vector<bool>& is_workspace,
                              bool wanted) {
  std::vector<plan::Life> of_buffer(plan.buffers.size()), found;
  for (uint32_t i = 0; i < trace.size(); ++i)
    for (const Access& access : trace.accesses_of(i)) {
      plan::Life& life = of_buffer[static_cast<size_t>(access.buffer)];
      if (life.end == 0) life.first = i;
      life.end = i + 1;
    }
  for (size_t b = 0; b < of_buffer.size(); ++b) {
    if (of_buffer[b].end == 0 || plan.buffers[b].cls != plan::BufferClass::kArena || is_workspace[b] != wanted)
      continue;
    of_buffer[b].bytes = plan.buffers[b].bytes;
    found.push_back(of_buffer[b]);
  }
  return found;
}

}  // namespace

void divide_workspaces(plan::RankPlan& plan, Trace& trace) {
  const std::vector<Launched> runs = launched(trace);
  std::vector<bool> is_workspace(plan.buffers.size(), false);
  for (const Launched& run : runs) is_workspace[static_cast<size_t>(trace.accesses[run.access].buffer)] = true;
  const std::vector<plan::Life> others = lives(plan, trace, is_workspace, false);
  std::vector<plan::Life> whole = lives(plan, trace, is_workspace, true), divided = others;
  whole.insert(whole.end(), others.begin(), others.end());
  for (const Launched& run : runs)
    divided.push_back({run.instruction, run.instruction + 1, trace.instructions[run.instruction].workspace_bytes});
  const auto enough = static_cast<int64_t>(kWorthwhile * static_cast<double>(plan::fullest(whole).bytes));
  if (plan::fullest(divided).bytes >= enough) return;
  std::vector<plan::Buffer>& buffers = plan.buffers.edit();
  for (const Launched& run : runs) {
    Access& access = trace.accesses[run.access];
    // The first run of a stream has the buffer that was all its runs'.
    if (is_workspace[static_cast<size_t>(access.buffer)]) {
      is_workspace[static_cast<size_t>(access.buffer)] = false;
    } else {
      access.buffer = static_cast<int32_t>(buffers.size());
      buffers.emplace_back().cls = plan::BufferClass::kArena;
    }
    plan::Buffer& own = buffers[static_cast<size_t>(access.buffer)];
    own.name = plan.arguments[static_cast<size_t>(run.arguments)].name + " workspace";
    own.bytes = trace.instructions[run.instruction].workspace_bytes;
    workspace_of(trace.instructions[run.instruction].instruction.action)->buffer = access.buffer;
  }
}

}  // namespace piper::emit
