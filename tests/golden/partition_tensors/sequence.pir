// Between products that are cut, values are in parts along the sequence: rows of the table, the sum, the norm. Products by
// columns read the gathered whole, the sum of shares is scattered, and a bias is added to each place's part. What needs
// the whole gets it, from before the logits on. Of parameters that are read beside parts every place has a share of the
// gradient.
// RUN-PASSES: partition_tensors
// CHECK: chunk 1 "all.gather" region 0 exchange
// CHECK: chunk 3 "all.scatter" region 0 exchange
// CHECK: chunk 5 "all.gather.2" region 0 exchange
// CHECK: %table = parameter ["table"] : f32[16, 8] share 0
// CHECK: %norm = parameter ["norm"] : f32[8] share 0
// CHECK: %bias = parameter ["bias"] : f32[8] share 0
// CHECK: %last = parameter ["last"] : f32[8] share 0
// CHECK: %[[ids]] = permute(%reshape_4) {dims=[1, 0, 2]} : i64[2, 2, 2]
// CHECK: %ids.part = own_part(%[[ids]], %place) {parts=2, cut=0} : i64[2, 2] chunk 0
// CHECK: %e = embedding(%table, %ids.part) {padding_idx=-1, scale_grad_by_freq=false} : f32[2, 2, 8] chunk 0
// CHECK: %n, %r = rms_norm(%e, %norm) {axes=1, eps=1e-05} : f32[2, 2, 8], f32[4] chunk 0
// CHECK: %n.whole = all_gather(%n) {parts=2, cut=0} : f32[2, 2, 2, 8] chunk 1
// CHECK: %[[whole]] = reshape(%permute_2) {shape=[2, 4, 8]} : f32[2, 4, 8] chunk 2
// CHECK: %u = linear(%[[whole]], %up, none) : f32[2, 4, 8] chunk 2
// CHECK: %d = linear(%a, %down, none) : f32[2, 4, 8] chunk 2
// CHECK: %[[first]] = permute(%reshape) {dims=[1, 0, 2, 3]} : f32[2, 2, 2, 8] chunk 2
// CHECK: %d.part = reduce_scatter(%[[first]]) {parts=2, cut=0} : f32[2, 2, 8] chunk 3
// CHECK: %d.biased = add(%d.part, %bias) : f32[2, 2, 8] chunk 4
// CHECK: %h = add(%e, %d.biased) : f32[2, 2, 8] chunk 4
// CHECK: %f.whole = all_gather(%f, %place) {parts=2, cut=0} : f32[2, 2, 2, 8] chunk 5
// CHECK: %logits = linear(%reshape_3, %head, none) : f32[2, 4, 16] chunk 6
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
    %norm = parameter ["norm"] : f32[8]
    %up = parameter ["up"] : f32[16, 8]
    %down = parameter ["down"] : f32[8, 16]
    %bias = parameter ["bias"] : f32[8]
    %last = parameter ["last"] : f32[8]
    %head = parameter ["head"] : f32[16, 8]
    %e = embedding(%table, %ids) {padding_idx=-1, scale_grad_by_freq=false} chunk 0
    %n, %r = rms_norm(%e, %norm) {axes=1, eps=1e-05} chunk 0
    %u = linear(%n, %up, none) chunk 0
    %a = gelu(%u) {approximate="none"} chunk 0
    %d = linear(%a, %down, %bias) chunk 0
    %h = add(%e, %d) chunk 0
    %f, %q = rms_norm(%h, %last) {axes=1, eps=1e-05} chunk 0
    %logits = linear(%f, %head, none) chunk 0
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
