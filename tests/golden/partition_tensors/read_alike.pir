// Of a parameter that all places read beside parts each has a share of the gradient, which is added up with the step's
// sums: nothing converts it.
// RUN-PASSES: partition_tensors
// CHECK: chunk 0 "all" region 0
// CHECK: chunk 3 "all.sum" region 0 exchange
// CHECK: chunk 5 "all.rest.2" region 0
// CHECK: %norm = parameter ["norm"] : f32[2] share 0
// CHECK: %norm_2 = parameter ["norm_2"] : f32[2] share 0
// CHECK: mul(%heads, %norm) : f32[2, 2, 2] chunk 2
// CHECK: mul(%heads_2, %norm_2) : f32[2, 2, 2] chunk 5
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %x = input "x" : f32[2, 3]
    %first = parameter ["first"] : f32[3, 3]
    %up = parameter ["up"] : f32[8, 3]
    %norm = parameter ["norm"] : f32[2]
    %down = parameter ["down"] : f32[3, 8]
    %up_2 = parameter ["up_2"] : f32[8, 3]
    %norm_2 = parameter ["norm_2"] : f32[2]
    %down_2 = parameter ["down_2"] : f32[3, 8]
    %y = linear(%x, %first, none) chunk 0
    %u = linear(%y, %up, none) chunk 0
    %heads = reshape(%u) {shape=[2, 4, 2]} chunk 0
    %n = mul(%heads, %norm) chunk 0
    %flat = reshape(%n) {shape=[2, 8]} chunk 0
    %d = linear(%flat, %down, none) chunk 0
    %u_2 = linear(%d, %up_2, none) chunk 0
    %heads_2 = reshape(%u_2) {shape=[2, 4, 2]} chunk 0
    %n_2 = mul(%heads_2, %norm_2) chunk 0
    %flat_2 = reshape(%n_2) {shape=[2, 8]} chunk 0
    %d_2 = linear(%flat_2, %down_2, none) chunk 0
    %loss = sum(%d_2) {dims=[0, 1], keepdim=false} chunk 0
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
