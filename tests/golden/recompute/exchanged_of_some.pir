// Microbatches that do not repeat the forward would send again in vain: where only some repeat it, all keep what an
// all_to_all brought.
// RUN-PASSES: recompute
// CHECK-NOT: again
// CHECK: repeating
// CHECK: %[[rows]] = reshape(%w) {shape=[2, 3]} : f32[2, 3] phase backward chunk 2
module {
  step batch 4 microbatches 2 split cut
  training clip 0.0
}
variant 2 {
  chunk 0 "PP0" region 0 shard 0
  chunk 1 "PP0.to_experts" region 0 exchange shard 0
  chunk 2 "PP0.experts" region 0 shard 0
  graph {
    %x = input "x" : f32[2, 3]
    %s = tanh(%x) chunk 0
    %p = sin(%s) chunk 0
    %v = reshape(%p) {shape=[2, 1, 3]} chunk 0
    %w = all_to_all(%v) chunk 1
    %r = reshape(%w) {shape=[2, 3]} chunk 2
    %c = sin(%r) chunk 2
    %y = sum(%c) {dims=[0, 1]} chunk 2
    %z = sum(%s) {dims=[0, 1]} chunk 2
    %loss = add(%y, %z) chunk 2
    %one = expand(%loss) {shape=[2, 3]} phase backward chunk 2
    %g = tanh_backward(%one, %c) phase backward chunk 2
    %u = reshape(%g) {shape=[2, 1, 3]} phase backward chunk 2
    %d = all_to_all(%u) phase backward chunk 1
    %e = reshape(%d) {shape=[2, 3]} phase backward chunk 0
    %h = tanh_backward(%e, %s) phase backward chunk 0
    loss %loss
  }
}
distribution {
  world 2
  stream 0 "compute"
  stream 1 "ep"
  group 0 [0..1]
  expert_groups 0 [[0..1]] stream 1 @0:0:0+1
  chunk 0 {
    groups [0 x2]
    shard 0
    recomputed [0, 1]
  }
  chunk 1 {
    groups [0 x2]
    shard 0
    recomputed [0, 1]
  }
  chunk 2 {
    groups [0 x2]
    shard 0
    recomputed [0, 1]
  }
}
