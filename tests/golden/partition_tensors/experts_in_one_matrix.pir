// The matrices of all experts are read as one. Of its columns each place has a part of each expert's, and what experts
// make is added up after the sum over them. A bias that is read with an axis more is cut, too.
// RUN-PASSES: partition_tensors
// CHECK: %up = parameter ["up"] : f32[4, 8, 8] cut 0 axis 2 places 2
// CHECK: %bias = parameter ["bias"] : f32[4, 8] cut 0 axis 1 places 2
// CHECK: %down = parameter ["down"] : f32[4, 8, 8] cut 0 axis 1 places 2
// CHECK: %first = permute(%up) {dims=[1, 0, 2]} : f32[8, 4, 8]
// CHECK: %matrix = reshape(%first) {shape=[8, 32]} : f32[8, 32]
// CHECK: %b = reshape(%bias) {shape=[4, 1, 8]} : f32[4, 1, 8]
// CHECK: %h = matmul(%x.entered, %matrix) : f32[6, 32]
// CHECK: %each = reshape(%h) {shape=[6, 4, 8]} : f32[6, 4, 8]
// CHECK: %d = matmul(%a, %down) : f32[4, 6, 8]
// CHECK: %y = sum(%d) {dims=[0], keepdim=false} : f32[6, 8]
// CHECK: %y.sum = all_reduce(%y) : f32[6, 8]
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %input = input "input" : f32[6, 8]
    %scale = parameter ["scale"] : f32[8]
    %up = parameter ["up"] : f32[4, 8, 16]
    %bias = parameter ["bias"] : f32[4, 16]
    %down = parameter ["down"] : f32[4, 16, 8]
    %x = mul(%input, %scale) chunk 0
    %first = permute(%up) {dims=[1, 0, 2]} chunk 0
    %matrix = reshape(%first) {shape=[8, 64]} chunk 0
    %h = matmul(%x, %matrix) chunk 0
    %each = reshape(%h) {shape=[6, 4, 16]} chunk 0
    %rows = permute(%each) {dims=[1, 0, 2]} chunk 0
    %b = reshape(%bias) {shape=[4, 1, 16]} chunk 0
    %biased = add(%rows, %b) chunk 0
    %a = tanh(%biased) chunk 0
    %d = matmul(%a, %down) chunk 0
    %y = sum(%d) {dims=[0], keepdim=false} chunk 0
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
