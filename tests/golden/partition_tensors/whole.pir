// What needs all features stays whole, with every product that leads there: a softmax, a norm, a sum with what is not
// cut, the loss. The products beside them are cut.
// RUN-PASSES: partition_tensors
// CHECK: %router = parameter ["router"] : f32[4, 8]
// CHECK: %normed = parameter ["normed"] : f32[8, 8]
// CHECK: %residual = parameter ["residual"] : f32[8, 8]
// CHECK: %up = parameter ["up"] : f32[8, 8] cut 0 axis 0 places 2
// CHECK: %down = parameter ["down"] : f32[8, 8] cut 0 axis 1 places 2
// CHECK: %bias = parameter ["bias"] : f32[8]
// CHECK: %d = linear(%a, %down, none) : f32[2, 8]
// CHECK: %d.sum = all_reduce(%d) : f32[2, 8]
// CHECK: %d.biased = add(%d.sum, %bias) : f32[2, 8]
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %x = input "x" : f32[2, 8]
    %router = parameter ["router"] : f32[4, 8]
    %normed = parameter ["normed"] : f32[8, 8]
    %residual = parameter ["residual"] : f32[8, 8]
    %up = parameter ["up"] : f32[16, 8]
    %down = parameter ["down"] : f32[8, 16]
    %bias = parameter ["bias"] : f32[8]
    %r = linear(%x, %router, none) chunk 0
    %gate = softmax(%r) {dim=1} chunk 0
    %g = sum(%gate) {dims=[1], keepdim=true} chunk 0
    %n = linear(%x, %normed, none) chunk 0
    %norm, %rstd = rms_norm(%n, none) {axes=1, eps=1e-05} chunk 0
    %s = linear(%norm, %residual, none) chunk 0
    %h = add(%x, %s) chunk 0
    %u = linear(%h, %up, none) chunk 0
    %a = gelu(%u) {approximate="none"} chunk 0
    %d = linear(%a, %down, %bias) chunk 0
    %y = mul(%d, %g) chunk 0
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
