// The part of a view of a weight that rows in parts read is a chunk of its own, beside what the chunk computes by itself.
// What repeats is whole where its reader is: of `p` nothing is gathered.
// RUN-PASSES: partition_tensors
// CHECK: chunk 1 "all.part" region 0 exchange
// CHECK: %p = expand(%pad) {shape=[2, 4, 4]} : f32[2, 4, 4]
// CHECK: %v.part = own_part(%[[rows]], %place) {parts=2, cut=0} : f32[1, 2, 8] chunk 1
// CHECK: %e = add(%t, %v.part) : f32[2, 2, 8] chunk 2
// CHECK: %c = cat(%[[whole]], %p) {dim=2} : f32[2, 4, 12]
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %ids = input "ids" : i64[2, 4]
    %labels = input "labels" : i64[8]
    %table = parameter ["table"] : f32[16, 8]
    %pos = parameter ["pos"] : f32[4, 8]
    %pad = parameter ["pad"] : f32[1, 1, 4]
    %up = parameter ["up"] : f32[16, 8]
    %down = parameter ["down"] : f32[8, 16]
    %head = parameter ["head"] : f32[16, 12]
    %t = embedding(%table, %ids) {padding_idx=-1, scale_grad_by_freq=false} chunk 0
    %v = reshape(%pos) {shape=[1, 4, 8]} chunk 0
    %e = add(%t, %v) chunk 0
    %u = linear(%e, %up, none) chunk 0
    %a = gelu(%u) {approximate="none"} chunk 0
    %d = linear(%a, %down, none) chunk 0
    %h = add(%e, %d) chunk 0
    %p = expand(%pad) {shape=[2, 4, 4]} chunk 0
    %c = cat(%h, %p) {dim=2} chunk 0
    %s = cumsum(%c) {dim=1} chunk 0
    %logits = linear(%s, %head, none) chunk 0
    %rows = reshape(%logits) {shape=[8, 16]} chunk 0
    %loss, %lse = cross_entropy_sum(%rows, %labels, none) {ignore_index=-100, label_smoothing=0.0} chunk 0
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
    cuts [0 @0:0:0+1, 0 dim sequence @0:0:0+1]
  }
}
