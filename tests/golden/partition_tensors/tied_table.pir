// A table that the logits read too has gradients that are the same at every place: rows are looked up whole, and a place
// takes its part of the result, which is a conversion because it has a gradient.
// RUN-PASSES: partition_tensors
// CHECK: chunk 2 "all.part" region 0 exchange
// CHECK: %table = parameter ["table"] : f32[16, 8]
// CHECK: %norm = parameter ["norm"] : f32[8] share 0
// CHECK: %e = embedding(%table, %ids) {padding_idx=-1, scale_grad_by_freq=false} : f32[2, 4, 8] chunk 0
// CHECK: %e.entered = enter(%e) : f32[2, 4, 8] chunk 1
// CHECK: %d.part = reduce_scatter(%permute) {parts=2, cut=0} : f32[2, 2, 8] chunk 4
// CHECK: %[[places]] = permute(%reshape_3) {dims=[1, 0, 2, 3]} : f32[2, 2, 2, 8] chunk 0
// CHECK: %e.part = own_part(%[[places]], %place) {parts=2, cut=0} : f32[2, 2, 8] chunk 2
// CHECK: %h = add(%e.part, %d.part) : f32[2, 2, 8] chunk 5
// CHECK: %logits = linear(%reshape_2, %table, none) : f32[2, 4, 16] chunk 7
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
    %up = parameter ["up"] : f32[16, 8]
    %down = parameter ["down"] : f32[8, 16]
    %norm = parameter ["norm"] : f32[8]
    %e = embedding(%table, %ids) {padding_idx=-1, scale_grad_by_freq=false} chunk 0
    %u = linear(%e, %up, none) chunk 0
    %a = gelu(%u) {approximate="none"} chunk 0
    %d = linear(%a, %down, none) chunk 0
    %h = add(%e, %d) chunk 0
    %f, %q = rms_norm(%h, %norm) {axes=1, eps=1e-05} chunk 0
    %logits = linear(%f, %table, none) chunk 0
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
