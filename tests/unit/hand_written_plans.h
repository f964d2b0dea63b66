// Small plans written by hand, with their data and weights, for tests of the executor and of piper-run:
// no compiler is needed, and what a step computes can be worked out in the test.
#pragma once

#include <string>
#include <vector>

#include "schemas/base/status.h"
#include "schemas/plan/plan.h"

namespace piper::hand_written {

// loss = sum over samples of (x W) V . t; samples of 3 features; W [3, 2] on rank 0, V [2, 2] on rank 1.
// Two samples a step; both ranks take the whole batch. Plain SGD, lr 0.5.
plan::Bundle pipeline();
// Two replicas, a sample each: loss = sum of (x W) . t; gradient and loss are summed on their own stream.
plan::Bundle replicas();

// An instruction as the plans have it: with the provenance of the bundle's first entry.
template <class A>
plan::Instruction instruction(int32_t stream, A action) {
  plan::Instruction i;
  i.stream = stream;
  i.action = std::move(action);
  i.provenance = 0;
  return i;
}

// Four samples of x [3] and t [2]; W and V.
extern const std::vector<float> kX, kT, kW, kV;
// data.safetensors and weights.safetensors in `directory`.
Status write_files(const std::string& directory);

}  // namespace piper::hand_written
