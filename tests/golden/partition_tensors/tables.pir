// A table that is embedding and head is cut once, with its bias, in parts of which the last is shorter: look-ups of own
// rows are added up, the loss takes the statistics of each place's classes. Positions, and logits that a loss needs
// whole, stay whole.
// RUN-PASSES: partition_tensors
// CHECK: %table = parameter ["table"] : f32[4, 8] cut 0 axis 0 places 2 extent 7
// CHECK: %bias = parameter ["bias"] : f32[4] cut 0 axis 0 places 2 extent 7
// CHECK: %smooth = parameter ["smooth"] : f32[7, 8]
// CHECK: %positions = parameter ["positions"] : f32[3, 8]
// CHECK: %e = embedding(%table, %ids, %place) {padding_idx=-1, scale_grad_by_freq=false, whole=7} : f32[2, 3, 8]
// CHECK: %p = embedding(%positions, %at) {padding_idx=-1, scale_grad_by_freq=false} : f32[3, 8]
// CHECK: %e.sum = all_reduce(%e) : f32[2, 3, 8]
// CHECK: %smoothed, %lse2 = cross_entropy_sum(%flat, %labels)
// CHECK: %logits = linear(%x.entered, %table, %bias) : f32[2, 3, 4]
// CHECK: %rows.rows = row_lse(%rows, %labels, %place) {ignore_index=-100, whole=7, places=2} : f32[6, 2, 2]
// CHECK: %rows.rows.sum = all_reduce(%rows.rows) : f32[6, 2, 2]
// CHECK: %ce, %lse = cross_entropy_sum(%rows, %labels, none, %rows.rows.sum, %place)
// CHECK: remark: 'smooth' stays whole, and so do its logits: 'cross_entropy_sum' smooths labels over all classes
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
    cuts [0 dim vocabulary @0:0:0+1]
  }
}
