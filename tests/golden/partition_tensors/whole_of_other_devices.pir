// A product by columns that reads parts of other devices reads the whole: it is gathered where the parts are, and enters
// where it is read, where the shares of its gradient are added up.
// RUN-PASSES: partition_tensors
// CHECK: chunk 5 "PP0.gather.2" region 0 exchange
// CHECK: chunk 7 "PP1.enter" region 1 exchange
// CHECK: %n.whole = all_gather(%n, %place) {parts=2, cut=0} : f32[2, 2, 2, 8] chunk 5
// CHECK: %[[whole]] = reshape(%permute_3) {shape=[2, 4, 8]} : f32[2, 4, 8] chunk 6
// CHECK: %n.entered = enter(%[[whole]]) : f32[2, 4, 8] chunk 7
// CHECK: %u = linear(%n.entered, %up, none) : f32[2, 4, 8] chunk 8
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "PP0" region 0
  chunk 1 "PP1" region 1
  graph {
    %ids = input "ids" : i64[2, 4]
    %labels = input "labels" : i64[8]
    %table = parameter ["table"] : f32[16, 8]
    %first = parameter ["first"] : f32[16, 8]
    %second = parameter ["second"] : f32[8, 16]
    %norm = parameter ["norm"] : f32[8]
    %up = parameter ["up"] : f32[16, 8]
    %down = parameter ["down"] : f32[8, 16]
    %head = parameter ["head"] : f32[16, 8]
    %e = embedding(%table, %ids) {padding_idx=-1, scale_grad_by_freq=false} chunk 0
    %i = linear(%e, %first, none) chunk 0
    %j = gelu(%i) {approximate="none"} chunk 0
    %k = linear(%j, %second, none) chunk 0
    %n, %r = rms_norm(%k, %norm) {axes=1, eps=1e-05} chunk 0
    %u = linear(%n, %up, none) chunk 1
    %a = gelu(%u) {approximate="none"} chunk 1
    %d = linear(%a, %down, none) chunk 1
    %logits = linear(%d, %head, none) chunk 1
    %rows = reshape(%logits) {shape=[8, 16]} chunk 1
    %loss, %lse = cross_entropy_sum(%rows, %labels, none) {ignore_index=-100, label_smoothing=0.0} chunk 1
    loss %loss
  }
}
distribution {
  world 4
  stream 0 "compute"
  stream 1 "tp"
  group 0 [0..1] places 2
  group 1 [2..3] places 2
  cut 0 [[0..1]] stream 1 @0:0:0+1
  cut 1 [[2..3]] stream 1 @0:0:0+1
  chunk 0 {
    groups [0]
    cuts [0 @0:0:0+1, 0 dim sequence @0:0:0+1]
  }
  chunk 1 {
    groups [1]
    cuts [1 @0:0:0+1]
  }
}
