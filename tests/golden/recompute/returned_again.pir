// What experts returned, which the backward needs as well, is made again of what they receive again: by a chunk of its own
// before that of the exchange. The experts' backward reads what that chunk made, and repeats nothing of it.
// RUN-PASSES: recompute
// CHECK: chunk 5 "PP0.from_experts.again" region 0 exchange again shard 0
// CHECK: chunk 6 "PP0.experts.again" region 0 again shard 0
// CHECK: chunk 7 "PP0.to_experts.again" region 0 exchange again shard 0
// CHECK: chunk 8 "PP0.again" region 0 again shard 0
// CHECK: %[[made]] = sin(%s) : f32[2, 3] phase backward chunk 8
// CHECK: %[[sent]] = reshape(%[[made]]) {shape=[2, 1, 3]} : f32[2, 1, 3] phase backward chunk 8
// CHECK: %[[again]] = all_to_all(%[[sent]]) : f32[2, 1, 3] phase backward chunk 7
// CHECK: %[[rows]] = reshape(%[[again]]) {shape=[2, 3]} : f32[2, 3] phase backward chunk 6
// CHECK: %[[c]] = tanh(%[[rows]]) : f32[2, 3] phase backward chunk 6
// CHECK: %[[parts]] = reshape(%[[c]]) {shape=[2, 1, 3]} : f32[2, 1, 3] phase backward chunk 6
// CHECK: %[[back]] = all_to_all(%[[parts]]) : f32[2, 1, 3] phase backward chunk 5
// CHECK: %[[returned]] = reshape(%[[back]]) {shape=[2, 3]} : f32[2, 3] phase backward chunk 4
// CHECK: tanh_backward(%one, %[[returned]])
// CHECK: tanh_backward(%e, %[[c]])
module {
  step batch 4 microbatches 2 split cut
  training clip 0.0
}
variant 2 {
  chunk 0 "PP0" region 0 shard 0
  chunk 1 "PP0.to_experts" region 0 exchange shard 0
  chunk 2 "PP0.experts" region 0 shard 0
  chunk 3 "PP0.from_experts" region 0 exchange shard 0
  chunk 4 "PP0.rest" region 0 shard 0
  graph {
    %x = input "x" : f32[2, 3]
    %s = tanh(%x) chunk 0
    %p = sin(%s) chunk 0
    %v = reshape(%p) {shape=[2, 1, 3]} chunk 0
    %w = all_to_all(%v) chunk 1
    %r = reshape(%w) {shape=[2, 3]} chunk 2
    %c = tanh(%r) chunk 2
    %k = reshape(%c) {shape=[2, 1, 3]} chunk 2
    %q = all_to_all(%k) chunk 3
    %t = reshape(%q) {shape=[2, 3]} chunk 4
    %y = sum(%t) {dims=[0, 1]} chunk 4
    %z = sum(%s) {dims=[0, 1]} chunk 4
    %loss = add(%y, %z) chunk 4
    %one = expand(%loss) {shape=[2, 3]} phase backward chunk 4
    %g = tanh_backward(%one, %t) phase backward chunk 4
    %u = reshape(%g) {shape=[2, 1, 3]} phase backward chunk 4
    %d = all_to_all(%u) phase backward chunk 3
    %e = reshape(%d) {shape=[2, 3]} phase backward chunk 2
    %f = tanh_backward(%e, %c) phase backward chunk 2
    %i = reshape(%f) {shape=[2, 1, 3]} phase backward chunk 2
    %j = all_to_all(%i) phase backward chunk 1
    %l = reshape(%j) {shape=[2, 3]} phase backward chunk 0
    %h = tanh_backward(%l, %s) phase backward chunk 0
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
    recomputed [1 x2]
  }
  chunk 1 {
    groups [0 x2]
    shard 0
    recomputed [1 x2]
  }
  chunk 2 {
    groups [0 x2]
    shard 0
    recomputed [1 x2]
  }
  chunk 3 {
    groups [0 x2]
    shard 0
    recomputed [1 x2]
  }
  chunk 4 {
    groups [0 x2]
    shard 0
    recomputed [1 x2]
  }
}
