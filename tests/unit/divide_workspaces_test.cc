// Each run has a workspace of its own where that is worth a line more in the plan.
#include <array>
#include <catch2/catch.hpp>

#include "compiler/emit/divide_workspaces.h"

using namespace piper;

namespace {

constexpr int32_t kWorkspace = 0, kSaved = 1;

struct Traced {
  plan::RankPlan plan;
  emit::Trace trace;
};

// "F" needs a large workspace, "B" a small one beside what is saved: `saved` bytes, alive from B to the end.
Traced large_and_small(int64_t large, int64_t small, int64_t saved) {
  Traced made;
  made.plan.streams = {{"compute"}};
  for (const int64_t bytes : {large, saved}) {
    plan::Buffer& buffer = made.plan.buffers.edit().emplace_back();
    buffer.name = bytes == large ? "workspace" : "saved";
    buffer.cls = plan::BufferClass::kArena;
    buffer.bytes = bytes;
  }
  const auto run = [&](const char* name, int64_t workspace, bool saves) {
    plan::Run of;
    of.arguments = static_cast<int32_t>(made.plan.arguments.size());
    of.workspace = {workspace > 0 ? kWorkspace : -1, 0};
    made.plan.arguments.push_back({name, {}});
    emit::Trace& trace = made.trace;
    trace.instructions.push_back({{0, of, -1}, static_cast<uint32_t>(trace.accesses.size()), workspace});
    if (saves) trace.accesses.push_back({kSaved, true, true});
    if (workspace > 0) trace.accesses.push_back({kWorkspace, true, true});
  };
  run("F", large, false);
  run("B", small, true);
  run("no workspace", 0, true);
  return made;
}

const plan::Buffer& workspace_of(const Traced& made, uint32_t instruction) {
  const auto& run = std::get<plan::Run>(made.trace.instructions[instruction].instruction.action);
  return made.plan.buffers[static_cast<size_t>(run.workspace.buffer)];
}

}  // namespace

TEST_CASE("a run that needs little holds no large workspace beside what is saved") {
  Traced made = large_and_small(1000, 100, 500);
  emit::divide_workspaces(made.plan, made.trace);
  REQUIRE(made.plan.buffers.size() == 3);
  CHECK(workspace_of(made, 0).name == "F workspace");
  CHECK(workspace_of(made, 0).bytes == 1000);
  CHECK(workspace_of(made, 1).name == "B workspace");
  CHECK(workspace_of(made, 1).bytes == 100);
  CHECK(workspace_of(made, 1).cls == plan::BufferClass::kArena);
  const auto accesses = made.trace.accesses_of(1);
  REQUIRE(accesses.size() == 2);
  CHECK(accesses[0].buffer == kSaved);
  CHECK(made.plan.buffers[static_cast<size_t>(accesses[1].buffer)].name == "B workspace");
}

TEST_CASE("a stream's runs share one where a 50th of the bytes, or less, would be spared") {
  for (const auto& [large, small, saved] : {std::array<int64_t, 3>{1000, 1000, 500}, {1000, 971, 500}}) {
    Traced made = large_and_small(large, small, saved);
    emit::divide_workspaces(made.plan, made.trace);
    CHECK(made.plan.buffers.size() == 2);
    CHECK(workspace_of(made, 0).name == "workspace");
    CHECK(workspace_of(made, 1).name == "workspace");
    CHECK(made.trace.accesses_of(1)[1].buffer == kWorkspace);
  }
  Traced worthwhile = large_and_small(1000, 969, 500);
  emit::divide_workspaces(worthwhile.plan, worthwhile.trace);
  CHECK(worthwhile.plan.buffers.size() == 3);
}
