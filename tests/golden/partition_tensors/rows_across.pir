// Experts over the places: each place orders the rows of its own part of the sequence, and sends them as they are.
// RUN-PASSES: partition_tensors
// CHECK: %router = parameter ["router"] : f32[4, 8] share 0
// CHECK: %t = reshape(%e) {shape=[4, 8]} : f32[4, 8] chunk 0
// CHECK: %order, %position, %counts, %dropped = expert_order(%asked) {experts=4, segments=4, capacity=4, strict=false} : i64[16], i64[4], i64[4, 1], i64[] chunk 0
// CHECK: %rows = take_rows(%t, %order, %position) {repeat=1} : f32[16, 8] chunk 0
// CHECK: %counted = all_to_all(%counts) {across=0} : i64[4, 1] chunk 1
// CHECK: %sent = all_to_all(%parts) {across=0} : f32[4, 4, 8] chunk 2
// CHECK: %made = grouped_matmul(%in, %w, %counted) {transposed=false} : f32[16, 8] chunk 3
// CHECK: %returned = all_to_all(%again) {across=0} : f32[4, 4, 8] chunk 4
// CHECK: %y = take_rows(%own, %position, %order) {repeat=1} : f32[4, 8] chunk 5
// CHECK: %z.whole = all_gather(%z, %place) {parts=2, cut=0} : f32[2, 4, 8] chunk 6
module {
  step batch 4 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "all" region 0 shard 0
  chunk 1 "all.counts" region 0 exchange shard 0
  chunk 2 "all.to_experts" region 0 exchange shard 0
  chunk 3 "all.experts" region 0 shard 0
  chunk 4 "all.from_experts" region 0 exchange shard 0
  chunk 5 "all.rest" region 0 shard 0
  graph {
    %ids = input "ids" : i64[2, 4]
    %labels = input "labels" : i64[8]
    %table = parameter ["table"] : f32[16, 8]
    %router = parameter ["router"] : f32[4, 8]
    %w = parameter ["w"] : f32[1, 8, 8] shards 4 by 0 share 0
    %head = parameter ["head"] : f32[16, 8]
    %e = embedding(%table, %ids) {padding_idx=-1, scale_grad_by_freq=false} chunk 0
    %t = reshape(%e) {shape=[8, 8]} chunk 0
    %g = linear(%t, %router, none) chunk 0
    %s = softmax(%g) {dim=1} chunk 0
    %gate, %chosen = topk(%s) {dim=1, k=1} chunk 0
    %asked = reshape(%chosen) {shape=[8]} chunk 0
    %order, %position, %counts, %dropped = expert_order(%asked) {experts=4, segments=4, capacity=8, strict=false} chunk 0
    %rows = take_rows(%t, %order, %position) {repeat=1} chunk 0
    %parts = reshape(%rows) {shape=[4, 8, 8]} chunk 0
    %counted = all_to_all(%counts) {across=0} chunk 1
    %sent = all_to_all(%parts) {across=0} chunk 2
    %in = reshape(%sent) {shape=[32, 8]} chunk 3
    %made = grouped_matmul(%in, %w, %counted) {transposed=false} chunk 3
    %again = reshape(%made) {shape=[4, 8, 8]} chunk 3
    %returned = all_to_all(%again) {across=0} chunk 4
    %own = reshape(%returned) {shape=[32, 8]} chunk 5
    %y = take_rows(%own, %position, %order) {repeat=1} chunk 5
    %z = mul(%y, %gate) chunk 5
    %logits = linear(%z, %head, none) chunk 5
    %loss, %lse = cross_entropy_sum(%logits, %labels, none) {ignore_index=-100, label_smoothing=0.0} chunk 5
    loss %loss
  }
}
distribution {
  world 4
  stream 0 "compute"
  stream 1 "tp"
  stream 2 "ep"
  group 0 [0..3] places 2
  expert_groups 0 [[0..3]] stream 2 @0:0:0+1
  cut 0 [[0..1], [2..3]] stream 1 @0:0:0+1
  chunk 0 {
    groups [0]
    shard 0
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
  chunk 3 {
    groups [0]
    shard 0
    cuts [0 @0:0:0+1, 0 dim sequence @0:0:0+1]
  }
  chunk 4 {
    groups [0]
    shard 0
    cuts [0 @0:0:0+1, 0 dim sequence @0:0:0+1]
  }
  chunk 5 {
    groups [0]
    shard 0
    cuts [0 @0:0:0+1, 0 dim sequence @0:0:0+1]
  }
}
