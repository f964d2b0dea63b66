// What a forward gathers is gathered again where a backward reads it, in a chunk of its own after the reader's; reshapes
// between are repeated, and the second graph repeats forwards of what is gathered again.
// RUN-PASSES: recompute
// CHECK: chunk 2 "PP0.rest" region 0
// CHECK: chunk 3 "PP0.gather.again" region 0 exchange again
// CHECK: tanh_backward(%one, %y)
// CHECK: %[[again]] = all_gather(%p) {parts=2, cut=0} : f32[2, 2, 3] phase backward chunk 3
// CHECK: %[[whole]] = reshape(%[[again]]) {shape=[4, 3]} : f32[4, 3] phase backward chunk 2
// CHECK: mul(%[[whole]], %g)
// CHECK: repeating
// CHECK: %[[again2]] = all_gather(%p) {parts=2, cut=0} : f32[2, 2, 3] phase backward chunk 3
// CHECK: %[[whole2]] = reshape(%[[again2]]) {shape=[4, 3]} : f32[4, 3] phase backward chunk 2
// CHECK: %[[whole3]] = reshape(%[[again2]]) {shape=[4, 3]} : f32[4, 3] phase backward chunk 2
// CHECK: %[[y]] = tanh(%[[whole3]]) : f32[4, 3] phase backward chunk 2
// CHECK: tanh_backward(%one, %[[y]])
module {
  step batch 4 microbatches 2 split cut
  training clip 0.0
}
variant 2 {
  chunk 0 "PP0" region 0
  chunk 1 "PP0.gather" region 0 exchange
  chunk 2 "PP0.rest" region 0
  graph {
    %x = input "x" : f32[2, 3]
    %p = sin(%x) chunk 0
    %w = all_gather(%p) {parts=2, cut=0} chunk 1
    %r = reshape(%w) {shape=[4, 3]} chunk 2
    %y = tanh(%r) chunk 2
    %loss = sum(%y) {dims=[0, 1]} chunk 2
    %one = expand(%loss) {shape=[4, 3]} phase backward chunk 2
    %g = tanh_backward(%one, %y) phase backward chunk 2
    %h = mul(%r, %g) phase backward chunk 2
    loss %loss
  }
}
distribution {
  world 2
  stream 0 "compute"
  stream 1 "tp"
  group 0 [0..1] places 2
  cut 0 [[0..1]] stream 1 @0:0:0+1
  chunk 0 {
    groups [0 x2]
    cuts [0 dim sequence @0:0:0+1]
  }
  chunk 1 {
    groups [0 x2]
    cuts [0 dim sequence @0:0:0+1]
  }
  chunk 2 {
    groups [0 x2]
    recomputed [0, 1]
    cuts [0 dim sequence @0:0:0+1]
  }
}
