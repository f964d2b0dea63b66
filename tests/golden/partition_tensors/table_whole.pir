// A table that is named and whose logits a loss needs whole is an error.
// RUN-PASSES: partition_tensors
// expect-error P0256: {{'smooth' cannot be divided by rows}}
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %ids = input "ids" : i64[2, 3]
    %labels = input "labels" : i64[6]
    %table = parameter ["table"] : f32[7, 8]
    %bias = parameter ["bias"] : f32[7]
    %smooth = parameter ["smooth"] : f32[7, 8]
    %positions = parameter ["positions"] : f32[3, 8]
    %at = constant : i64[3] data [0, 1, 2]
    %e = embedding(%table, %ids) {padding_idx=-1, scale_grad_by_freq=false} chunk 0
    %p = embedding(%positions, %at) {padding_idx=-1, scale_grad_by_freq=false} chunk 0
    %x = add(%e, %p) chunk 0
    %logits = linear(%x, %table, %bias) chunk 0
    %rows = reshape(%logits) {shape=[6, 7]} chunk 0
    %ce, %lse = cross_entropy_sum(%rows, %labels) {ignore_index=-100, label_smoothing=0.0} chunk 0
    %others = linear(%x, %smooth, none) chunk 0
    %flat = reshape(%others) {shape=[6, 7]} chunk 0
    %smoothed, %lse2 = cross_entropy_sum(%flat, %labels) {ignore_index=-100, label_smoothing=0.1} chunk 0
    %loss = add(%ce, %smoothed) chunk 0
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
    cuts [0 dim vocabulary weights ["smooth"] @0:0:0+1]
  }
}
