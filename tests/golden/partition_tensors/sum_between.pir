// A sum that enters the next product and is added to its result, too: a view of it stands between the two conversions,
// where a program adds up the gradients of both readers.
// RUN-PASSES: partition_tensors
// CHECK: chunk 2 "all.rest" region 0
// CHECK: %d.sum = all_reduce(%d) : f32[2, 8] chunk 1
// CHECK: %d.read = reshape(%d.sum) {shape=[2, 8]} : f32[2, 8] chunk 2
// CHECK: %d.entered = enter(%d.read) : f32[2, 8] chunk 3
// CHECK: %y = add(%d.read, %d_2.sum) : f32[2, 8]
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %x = input "x" : f32[2, 8]
    %up = parameter ["up"] : f32[16, 8]
    %down = parameter ["down"] : f32[8, 16]
    %up_2 = parameter ["up_2"] : f32[16, 8]
    %down_2 = parameter ["down_2"] : f32[8, 16]
    %u = linear(%x, %up, none) chunk 0
    %a = gelu(%u) {approximate="none"} chunk 0
    %d = linear(%a, %down, none) chunk 0
    %u_2 = linear(%d, %up_2, none) chunk 0
    %a_2 = gelu(%u_2) {approximate="none"} chunk 0
    %d_2 = linear(%a_2, %down_2, none) chunk 0
    %y = add(%d, %d_2) chunk 0
    %loss = sum(%y) {dims=[0, 1], keepdim=false} chunk 0
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
