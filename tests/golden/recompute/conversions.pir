// What places have added up is kept: a repeated forward sends nothing again.
// RUN-PASSES: recompute
// CHECK: %s = all_reduce(%x) : f32[2, 3] chunk 0
// CHECK: %[[y]] = tanh(%s) : f32[2, 3] phase backward chunk 0
// CHECK: tanh_backward(%one, %[[y]])
module {
  step batch 4 microbatches 2 split cut
  training clip 0.0
}
variant 2 {
  chunk 0 "PP0"
  graph {
    %x = input "x" : f32[2, 3]
    %s = all_reduce(%x) chunk 0
    %y = tanh(%s) chunk 0
    %loss = sum(%y) {dims=[0, 1]} chunk 0
    %one = expand(%loss) {shape=[2, 3]} phase backward chunk 0
    %g = tanh_backward(%one, %y) phase backward chunk 0
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
}
