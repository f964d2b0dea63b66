// What a later chunk of the same devices keeps for its own repetition is not repeated: the backward reads it, and so
// needs nothing that it was made of.
// RUN-PASSES: recompute
// CHECK: %[[z]] = tanh(%y) : f32[2, 3] phase backward chunk 1
// CHECK: %gz = tanh_backward(%one, %[[z]])
// CHECK: %gy = tanh_backward(%gz, %y)
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
  world 1
  stream 0 "compute"
  group 0 [0]
  chunk 0 {
    groups [0 x2]
    recomputed [1 x2]
  }
  chunk 1 {
    groups [0 x2]
    recomputed [1 x2]
  }
}
