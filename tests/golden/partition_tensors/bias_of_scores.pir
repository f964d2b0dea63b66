// A bias of scores that a table makes for all heads, the same for all samples: each place reads that of its heads, and
// the gradients of all are gathered. What depends on the samples is not read so: its weight stays whole.
// RUN-PASSES: partition_tensors
// CHECK: chunk 3 "all.part" region 0 exchange
// CHECK: %q = parameter ["q"] : f32[4, 8] cut 0 axis 0 places 2
// CHECK: %table = parameter ["table"] : f32[2, 2]
// CHECK: %gate = parameter ["gate"] : f32[2, 1] cut 0 axis 1 places 2
// CHECK: %up = parameter ["up"] : f32[8, 8]
// CHECK: %b.part = own_part(%[[heads]], %place) {parts=2, cut=0} : f32[1, 1] chunk 3
// CHECK: %s = add(%h, %b.part) : f32[2, 1, 4]
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %x = input "x" : f32[2, 8]
    %q = parameter ["q"] : f32[8, 8]
    %out = parameter ["out"] : f32[8, 8]
    %table = parameter ["table"] : f32[2, 2]
    %gate = parameter ["gate"] : f32[2, 2]
    %up = parameter ["up"] : f32[8, 8]
    %down = parameter ["down"] : f32[8, 8]
    %p = linear(%x, %q, none) chunk 0
    %h = reshape(%p) {shape=[2, 2, 4]} chunk 0
    %t = matmul(%table, %gate) chunk 0
    %ts = sum(%t) {dims=[1], keepdim=true} chunk 0
    %b = tanh(%ts) chunk 0
    %s = add(%h, %b) chunk 0
    %y = reshape(%s) {shape=[2, 8]} chunk 0
    %o = linear(%y, %out, none) chunk 0
    %u = linear(%o, %up, none) chunk 0
    %n = tanh(%o) chunk 0
    %m = mul(%u, %n) chunk 0
    %d = linear(%m, %down, none) chunk 0
    %loss = sum(%d) {dims=[0, 1], keepdim=false} chunk 0
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
    groups [0]
    cuts [0 @0:0:0+1]
  }
}
