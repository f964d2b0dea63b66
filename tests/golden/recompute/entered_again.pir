// Where a chunk is recomputed, what readers with parts have whole is made again for their backward, from what the chunk hands
// on to later ones.
// RUN-PASSES: recompute
// CHECK: chunk 3 "PP0.again" region 0 again
// CHECK: %[[part]] = sin(%s) : f32[2, 3] phase backward chunk 3
// CHECK: tanh_backward(%one, %[[part]])
// CHECK: tanh_backward(%d, %s)
module {
  step batch 4 microbatches 2 split cut
  training clip 0.0
}
variant 2 {
  chunk 0 "PP0" region 0
  chunk 1 "PP0.enter" region 0 exchange
  chunk 2 "PP0.rest" region 0
  graph {
    %x = input "x" : f32[2, 3]
    %s = tanh(%x) chunk 0
    %p = sin(%s) chunk 0
    %w = enter(%p) chunk 1
    %y = sum(%w) {dims=[0, 1]} chunk 2
    %z = sum(%s) {dims=[0, 1]} chunk 2
    %loss = add(%y, %z) chunk 2
    %one = expand(%loss) {shape=[2, 3]} phase backward chunk 2
    %g = tanh_backward(%one, %w) phase backward chunk 2
    %d = all_reduce(%g) phase backward chunk 1
    %h = tanh_backward(%d, %s) phase backward chunk 0
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
    recomputed [1 x2]
    cuts [0 @0:0:0+1]
  }
  chunk 1 {
    groups [0 x2]
    recomputed [1 x2]
    cuts [0 @0:0:0+1]
  }
  chunk 2 {
    groups [0 x2]
    recomputed [1 x2]
    cuts [0 @0:0:0+1]
  }
}
