// Two heads of keys and values, fewer than the four places: their weights stay whole, and every place computes them.
// Queries are cut, and each place reads the part of the repeated heads that its queries need: a chunk of its own, as its
// derivative puts the parts' gradients together.
// RUN-PASSES: partition_tensors
// CHECK: chunk 1 "all.part" region 0 exchange
// CHECK: chunk 2 "all.part.2" region 0 exchange
// CHECK: %q = parameter ["q"] : f32[2, 8] cut 0 axis 0 places 4
// CHECK: %k = parameter ["k"] : f32[4, 8]
// CHECK: %v = parameter ["v"] : f32[4, 8]
// CHECK: %out = parameter ["out"] : f32[8, 2] cut 0 axis 1 places 4
// CHECK: %ks.part = own_part(%[[keys]], %place) {parts=4, cut=0} : f32[2, 1, 4, 2] chunk 1
// CHECK: %vs.part = own_part(%[[values]], %place) {parts=4, cut=0} : f32[2, 1, 4, 2] chunk 2
// CHECK: %y, %lse = scaled_dot_product_attention(%qh, %ks.part, %vs.part) {is_causal=true, scale=0.5} : f32[2, 1, 4, 2], f32[2, 1, 4] chunk 3
// CHECK: %o.sum = all_reduce(%o) : f32[2, 4, 8] chunk 4
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %x = input "x" : f32[2, 4, 8]
    %q = parameter ["q"] : f32[8, 8]
    %k = parameter ["k"] : f32[4, 8]
    %v = parameter ["v"] : f32[4, 8]
    %out = parameter ["out"] : f32[8, 8]
    %all_q = linear(%x, %q, none) chunk 0
    %all_k = linear(%x, %k, none) chunk 0
    %all_v = linear(%x, %v, none) chunk 0
    %qr = reshape(%all_q) {shape=[2, 4, 4, 2]} chunk 0
    %qh = permute(%qr) {dims=[0, 2, 1, 3]} chunk 0
    %kr = reshape(%all_k) {shape=[2, 4, 2, 2]} chunk 0
    %kh = permute(%kr) {dims=[0, 2, 1, 3]} chunk 0
    %ko = reshape(%kh) {shape=[2, 2, 1, 4, 2]} chunk 0
    %ke = expand(%ko) {shape=[2, 2, 2, 4, 2]} chunk 0
    %ks = reshape(%ke) {shape=[2, 4, 4, 2]} chunk 0
    %vr = reshape(%all_v) {shape=[2, 4, 2, 2]} chunk 0
    %vh = permute(%vr) {dims=[0, 2, 1, 3]} chunk 0
    %vo = reshape(%vh) {shape=[2, 2, 1, 4, 2]} chunk 0
    %ve = expand(%vo) {shape=[2, 2, 2, 4, 2]} chunk 0
    %vs = reshape(%ve) {shape=[2, 4, 4, 2]} chunk 0
    %y, %lse = scaled_dot_product_attention(%qh, %ks, %vs) {is_causal=true, scale=0.5} chunk 0
    %yp = permute(%y) {dims=[0, 2, 1, 3]} chunk 0
    %yr = reshape(%yp) {shape=[2, 4, 8]} chunk 0
    %o = linear(%yr, %out, none) chunk 0
    %loss = sum(%o) {dims=[0, 1, 2], keepdim=false} chunk 0
    loss %loss
  }
}
distribution {
  world 4
  stream 0 "compute"
  stream 1 "tp"
  group 0 [0..3] places 4
  cut 0 [[0..3]] stream 1 @0:0:0+1
  chunk 0 {
    groups [0]
    cuts [0 @0:0:0+1]
  }
}
