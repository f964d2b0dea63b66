// A weight that makes queries, keys and values in one is cut in three segments: slices of its result say so, or an axis
// that numbers them. Heads are the outermost factor of each segment.
// RUN-PASSES: partition_tensors
// CHECK: %qkv = parameter ["qkv"] : f32[12, 8] cut 0 axis 0 places 2 segments 3
// CHECK: %bias = parameter ["bias"] : f32[12] cut 0 axis 0 places 2 segments 3
// CHECK: %out = parameter ["out"] : f32[8, 4] cut 0 axis 1 places 2
// CHECK: %qkv_2 = parameter ["qkv_2"] : f32[12, 8] cut 0 axis 0 places 2 segments 3
// CHECK: %out_2 = parameter ["out_2"] : f32[8, 4] cut 0 axis 1 places 2
// CHECK: %k = slice(%all) {dim=2, start=4, end=8, step=1} : f32[2, 4, 4]
// CHECK: %kh = reshape(%k) {shape=[2, 4, 1, 4]} : f32[2, 4, 1, 4]
// CHECK: %o = linear(%y, %out, none) : f32[2, 4, 8]
// CHECK: %o.sum = all_reduce(%o) : f32[2, 4, 8]
// CHECK: %heads_2 = reshape(%all_2) {shape=[2, 4, 3, 1, 4]} : f32[2, 4, 3, 1, 4]
// CHECK: %o_2.sum = all_reduce(%o_2) : f32[2, 4, 8]
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %x = input "x" : f32[2, 4, 8]
    %qkv = parameter ["qkv"] : f32[24, 8]
    %bias = parameter ["bias"] : f32[24]
    %out = parameter ["out"] : f32[8, 8]
    %qkv_2 = parameter ["qkv_2"] : f32[24, 8]
    %out_2 = parameter ["out_2"] : f32[8, 8]
    %all = linear(%x, %qkv, %bias) chunk 0
    %q = slice(%all) {dim=2, start=0, end=8, step=1} chunk 0
    %k = slice(%all) {dim=2, start=8, end=16, step=1} chunk 0
    %v = slice(%all) {dim=2, start=16, end=24, step=1} chunk 0
    %qh = reshape(%q) {shape=[2, 4, 2, 4]} chunk 0
    %kh = reshape(%k) {shape=[2, 4, 2, 4]} chunk 0
    %vh = reshape(%v) {shape=[2, 4, 2, 4]} chunk 0
    %qk = mul(%qh, %kh) chunk 0
    %qkv_y = mul(%qk, %vh) chunk 0
    %y = reshape(%qkv_y) {shape=[2, 4, 8]} chunk 0
    %o = linear(%y, %out, none) chunk 0
    %all_2 = linear(%o, %qkv_2, none) chunk 0
    %heads_2 = reshape(%all_2) {shape=[2, 4, 3, 2, 4]} chunk 0
    %first_2 = permute(%heads_2) {dims=[2, 0, 1, 3, 4]} chunk 0
    %q_2 = slice(%first_2) {dim=0, start=0, end=1, step=1} chunk 0
    %k_2 = slice(%first_2) {dim=0, start=1, end=2, step=1} chunk 0
    %qk_2 = mul(%q_2, %k_2) chunk 0
    %y_2 = reshape(%qk_2) {shape=[2, 4, 8]} chunk 0
    %o_2 = linear(%y_2, %out_2, none) chunk 0
    %loss = sum(%o_2) {dims=[0, 1, 2], keepdim=false} chunk 0
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
