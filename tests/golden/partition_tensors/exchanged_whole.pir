// Rows that go to their experts are at rest before: the exchange, a chunk of its own by now, needs them whole. It keeps
// its chunk and its name, and what gathers for it has chunks of its own.
// RUN-PASSES: partition_tensors
// CHECK: chunk 5 "all.to_experts.gather" region 0 exchange shard 0
// CHECK: chunk 7 "all.to_experts" region 0 exchange shard 0
// CHECK: %n.whole = all_gather(%n, %place) {parts=2, cut=0} : f32[2, 2, 2, 8] chunk 5
// CHECK: %[[whole]] = reshape(%permute_3) {shape=[2, 4, 8]} : f32[2, 4, 8] chunk 6
// CHECK: %sent = all_to_all(%[[whole]]) : f32[2, 4, 8] chunk 7
module {
  step batch 4 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "all" region 0
  chunk 1 "all.to_experts" region 0 exchange shard 0
  chunk 2 "all.rest" region 0 shard 0
  graph {
    %ids = input "ids" : i64[2, 4]
    %labels = input "labels" : i64[8]
    %table = parameter ["table"] : f32[16, 8]
    %norm = parameter ["norm"] : f32[8]
    %up = parameter ["up"] : f32[16, 8]
    %down = parameter ["down"] : f32[8, 16]
    %head = parameter ["head"] : f32[16, 8]
    %e = embedding(%table, %ids) {padding_idx=-1, scale_grad_by_freq=false} chunk 0
    %u = linear(%e, %up, none) chunk 0
    %a = gelu(%u) {approximate="none"} chunk 0
    %d = linear(%a, %down, none) chunk 0
    %h = add(%e, %d) chunk 0
    %n, %r = rms_norm(%h, %norm) {axes=1, eps=1e-05} chunk 0
    %sent = all_to_all(%n) chunk 1
    %rows = reshape(%sent) {shape=[8, 8]} chunk 2
    %logits = linear(%rows, %head, none) chunk 2
    %loss, %lse = cross_entropy_sum(%logits, %labels, none) {ignore_index=-100, label_smoothing=0.0} chunk 2
    loss %loss
  }
}
distribution {
  world 4
  stream 0 "compute"
  stream 1 "tp"
  stream 2 "ep"
  group 0 [0..3] places 2
  expert_groups 0 [[0, 2], [1, 3]] stream 2 @0:0:0+1
  cut 0 [[0..1], [2..3]] stream 1 @0:0:0+1
  chunk 0 {
    groups [0]
    cuts [0 @0:0:0+1, 0 dim sequence @0:0:0+1]
  }
  chunk 1 {
    groups [0]
    shard 0
    cuts [0 @0:0:0+1, 0 dim sequence @0:0:0+1]
  }
  chunk 2 {
    groups [0]
    shard 0
    cuts [0 @0:0:0+1, 0 dim sequence @0:0:0+1]
  }
}
