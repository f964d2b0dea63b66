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

// The same step with the work of the update shared: each replica sums and updates its half of W, and gathers
// the other half. Rank 0 sums in place, rank 1 apart; W and its gradient are placed in parts.
plan::Bundle sharded();
// The same step after the samples have changed places: x by whole parts, t by counted rows of which each
// sends the other's own. Two samples a rank.
plan::Bundle exchanged();
// Three ranks and three messages: rank 1's send is after a receive on another lane, and only that
// send makes rank 0 answer the receive.
plan::Bundle lanes();
// One tensor `w`, each part of it on ranks of its own: rank = replica * parts + part. Replicas share the update of a
// part. loss = sum over two samples of x . w, x being as many features as w has elements; AdamW.
struct CutTensor {
  std::vector<int64_t> shape;
  int32_t axis = 0, parts = 1, replicas = 1, segments = 1;
};
plan::Bundle cut_tensor(const CutTensor& of);

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
