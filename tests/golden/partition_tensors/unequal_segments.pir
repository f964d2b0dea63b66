// A weight that makes queries of four heads, and keys and values of two each, falls into segments of unequal size: each
// place has its part of each. Slices of the result say so, one after the other.
// RUN-PASSES: partition_tensors
// CHECK: %qkv = parameter ["qkv"] : f32[8, 8] cut 0 axis 0 places 2 extents [8, 4, 4]
// CHECK: %bias = parameter ["bias"] : f32[8] cut 0 axis 0 places 2 extents [8, 4, 4]
// CHECK: %out = parameter ["out"] : f32[8, 4] cut 0 axis 1 places 2
// CHECK: %k = slice(%all) {dim=2, start=4, end=6, step=1} : f32[2, 4, 2]
// CHECK: %kh = reshape(%k) {shape=[2, 4, 1, 2]} : f32[2, 4, 1, 2]
// CHECK: %v = slice(%all) {dim=2, start=6, end=8, step=1} : f32[2, 4, 2]
// CHECK: %o = linear(%y, %out, none) : f32[2, 4, 8]
// CHECK: %o.sum = all_reduce(%o) : f32[2, 4, 8]
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %x = input "x" : f32[2, 4, 8]
    %qkv = parameter ["qkv"] : f32[16, 8]
    %bias = parameter ["bias"] : f32[16]
    %out = parameter ["out"] : f32[8, 8]
    %all = linear(%x, %qkv, %bias) chunk 0
    %q = slice(%all) {dim=2, start=0, end=8, step=1} chunk 0
    %k = slice(%all) {dim=2, start=8, end=12, step=1} chunk 0
    %kh = reshape(%k) {shape=[2, 4, 2, 2]} chunk 0
    %ko = reshape(%kh) {shape=[2, 4, 2, 1, 2]} chunk 0
    %ke = expand(%ko) {shape=[2, 4, 2, 2, 2]} chunk 0
    %ks = reshape(%ke) {shape=[2, 4, 4, 2]} chunk 0
    %v = slice(%all) {dim=2, start=12, end=16, step=1} chunk 0
    %vh = reshape(%v) {shape=[2, 4, 2, 2]} chunk 0
    %vo = reshape(%vh) {shape=[2, 4, 2, 1, 2]} chunk 0
    %ve = expand(%vo) {shape=[2, 4, 2, 2, 2]} chunk 0
    %vs = reshape(%ve) {shape=[2, 4, 4, 2]} chunk 0
    %qh = reshape(%q) {shape=[2, 4, 4, 2]} chunk 0
    %qk = mul(%qh, %ks) chunk 0
    %qkv_y = mul(%qk, %vs) chunk 0
    %y = reshape(%qkv_y) {shape=[2, 4, 8]} chunk 0
    %o = linear(%y, %out, none) chunk 0
    %loss = sum(%o) {dims=[0, 1, 2], keepdim=false} chunk 0
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
