// A rank's instructions in issue order, and what each touches. Made by the emitter of a role (role_emitter.h), read by
// what gives buffers their bytes and orders streams (place_buffers.h).
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "schemas/plan/plan.h"

namespace piper::emit {

struct Access {
  int32_t buffer = -1;
  bool reads = false, writes = false;
};
struct Trace {
  struct Traced {
    plan::Instruction instruction;
    uint32_t first_access = 0;    // its accesses end where those of the next instruction begin
    int64_t workspace_bytes = 0;  // that its program asks for
    bool pass = false;            // of a chunk: what takes time
  };
  std::vector<Traced> instructions;
  std::vector<Access> accesses;
  std::vector<std::pair<uint32_t, uint32_t>>
      ordered;  // (instruction, an earlier one of another stream that the strategy puts before it), sorted

  uint32_t size() const { return static_cast<uint32_t>(instructions.size()); }
  int32_t stream_of(uint32_t i) const { return instructions[i].instruction.stream; }
  bool is_run(uint32_t i) const { return std::holds_alternative<plan::Run>(instructions[i].instruction.action); }
  std::span<const Access> accesses_of(uint32_t i) const {
    const size_t end = i + 1 < size() ? instructions[i + 1].first_access : accesses.size();
    return {accesses.data() + instructions[i].first_access, accesses.data() + end};
  }
};

}  // namespace piper::emit
