// The count comes from copies of the ops that make the labels, before every forward.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=4
// CHECK-NOT: cross_entropy_loss
// CHECK: [[pad]] = pad(%labels) {low=[0, 0], high=[0, 1], value=-100.0} : i64[2, 5] phase count chunk 1
// CHECK: [[slice]] = slice(%[[pad]]) {dim=1, start=1, end=5, step=1} : i64[2, 4] phase count chunk 1
// CHECK: [[flat]] = reshape(%[[slice]]) {shape=[8]} : i64[8] phase count chunk 1
// CHECK: [[count]] = cross_entropy_count(%[[flat]]) {ignore_index=-100, label_smoothing=0.0} : f32[] phase count chunk 1
// CHECK: [[total]] = step_sum(%[[count]]) : f32[] phase count chunk 1
// CHECK: [[inverse]] = reciprocal(%[[total]]) : f32[] phase count_finish chunk 1
// CHECK: [[sum]], %[[lse]] = cross_entropy_sum(%logits, %flat) {ignore_index=-100, label_smoothing=0.1} : f32[], f32[8] chunk 1
// CHECK: [[loss]] = mul(%[[sum]], %[[inverse]]) : f32[] chunk 1
// CHECK: loss %[[loss]]
graph {
  %x = input "x" : f32[2, 4, 3]
  %labels = input "labels" : i64[2, 4]
  %w = parameter ["w"] : f32[7, 3]
  %y = linear(%x, %w) chunk 0
  %padded = pad(%labels) {low=[0, 0], high=[0, 1], value=-100} chunk 0
  %shifted = slice(%padded) {dim=1, start=1, end=5} chunk 0
  %flat = reshape(%shifted) {shape=[8]} chunk 1
  %logits = reshape(%y) {shape=[8, 7]} chunk 1
  %loss = cross_entropy_loss(%logits, %flat) {label_smoothing=0.1} chunk 1
  output "loss" = %loss
  loss %loss
}
