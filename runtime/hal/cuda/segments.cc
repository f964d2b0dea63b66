#include "runtime/hal/cuda/segments.h"

#include <set>

#include "runtime/hal/cuda/event_commands.h"

namespace piper::hal {

namespace {

const CudaEvent* recorded_by(const Issue& issue) {
  const auto* record = dynamic_cast<const CudaRecordEvent*>(issue.command);
  return record == nullptr ? nullptr : &record->event();
}

const CudaEvent* waited_for_by(const Issue& issue) {
  const auto* wait = dynamic_cast<const CudaWaitEvent*>(issue.command);
  return wait == nullptr ? nullptr : &wait->event();
}

bool is_event(const Issue& issue) { return recorded_by(issue) != nullptr || waited_for_by(issue) != nullptr; }

std::vector<size_t> queues_in(const std::vector<Issue>& commands, const Segment& segment) {
  std::set<size_t> queues;
  for (size_t i = segment.begin; i < segment.end; ++i) queues.insert(static_cast<size_t>(commands[i].queue));
  queues.erase(0);
  return {queues.begin(), queues.end()};
}

// By command, whether it goes into a graph: all that is between two commands that cannot, where there is any work.
std::vector<bool> captured_of(const std::vector<Issue>& commands) {
  std::vector<bool> captured(commands.size(), false);
  for (size_t begin = 0; begin < commands.size();) {
    bool work = false;
    size_t end = begin;
    for (; end < commands.size() && commands[end].command->prevents_capture() == nullptr; ++end)
      work = work || !is_event(commands[end]);
    for (size_t i = begin; i < end; ++i) captured[i] = work;
    begin = end + 1;
  }
  return captured;
}

}  // namespace

Segments cut_into_segments(const std::vector<Issue>& commands) {
  Segments cut;
  const std::vector<bool> captured = captured_of(commands);
  for (size_t begin = 0, end = 0; begin < commands.size(); begin = end) {
    while (end < commands.size() && captured[end] == captured[begin]) ++end;
    cut.list.push_back({begin, end, captured[begin], {}});
    cut.list.back().queues = queues_in(commands, cut.list.back());
  }
  cut.ordered_by_cut.assign(commands.size(), false);
  for (const Segment& segment : cut.list) {
    std::set<const CudaEvent*> recorded;
    for (size_t i = segment.begin; i < segment.end; ++i) {
      if (const CudaEvent* event = recorded_by(commands[i])) recorded.insert(event);
      else if (const CudaEvent* awaited = waited_for_by(commands[i]))
        cut.ordered_by_cut[i] = !recorded.contains(awaited);
    }
  }
  for (const Issue& issue : commands)
    if (const char* reason = issue.command->prevents_capture()) cut.uncaptured.push_back({issue.instruction, reason});
  return cut;
}

}  // namespace piper::hal
