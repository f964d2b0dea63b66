// Chunks of other devices keep what they read there: it is repeated here.
// RUN-PASSES: recompute
// CHECK: %[[h]] = sin(%x) : f32[2, 3] phase backward chunk 0
// CHECK: %[[y]] = tanh(%[[h]]) : f32[2, 3] phase backward chunk 0
// CHECK: %[[z]] = tanh(%y) : f32[2, 3] phase backward chunk 1
// CHECK: %gz = tanh_backward(%one, %[[z]])
// CHECK: %gy = tanh_backward(%gz, %[[y]])
module {
  step batch 4 microbatches 2 split cut
  training clip 0.0
}
variant 2 {
  chunk 0 "PP0"
  chunk 1 "PP1"
  graph {
    %x = input "x" : f32[2, 3]
    %h = sin(%x) chunk 0
    %y = tanh(%h) chunk 0
    %z = tanh(%y) chunk 1
    %loss = sum(%z) {dims=[0, 1]} chunk 1
    %one = expand(%loss) {shape=[2, 3]} phase backward chunk 1
    %gz = tanh_backward(%one, %z) phase backward chunk 1
    %gy = tanh_backward(%gz, %y) phase backward chunk 0
    loss %loss
  }
}
distribution {
  world 2
  stream 0 "compute"
  group 0 [0]
  group 1 [1]
  chunk 0 {
    groups [0 x2]
    recomputed [1 x2]
  }
  chunk 1 {
    groups [1 x2]
    recomputed [1 x2]
  }
}
