// Two ranks that share samples are one replica: what parameters alone make goes to a group of one replica, and is not
// made again.
// RUN-PASSES: copy_weight_ops
// CHECK: %bias = mul(%w, %w) : f32[2, 2] chunk 0
// CHECK-NOT: mul(%w, %w) : f32[2, 2] chunk 1
// CHECK: matmul(%y, %bias) : f32[8, 2] chunk 1
module {
  step batch 8 microbatches 1
  training clip 0.0
}
variant 8 {
  chunk 0 "PP0"
  chunk 1 "PP1"
  graph {
    %x = input "x" : f32[8, 2]
    %w = parameter ["w"] : f32[2, 2]
    %bias = mul(%w, %w) chunk 0
    %y = matmul(%x, %bias) chunk 0
    %z = matmul(%y, %bias) chunk 1
    %loss = sum(%z) {dims=[0, 1]} chunk 1
    loss %loss
  }
}
distribution {
  world 3
  stream 0 "compute"
  group 0 [0]
  group 1 [1..2] places 2
  chunk 0 {
    groups [0]
  }
  chunk 1 {
    groups [1]
  }
}
