// A loss of halves is added up in f32, and is the model's value, rounded, only where something else reads it.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=4
// CHECK: [[total]] = step_sum(%cross_entropy_count) : f32[] phase count chunk 1
// CHECK: [[inverse]] = reciprocal(%[[total]]) : f32[] phase count_finish chunk 1
// CHECK: [[sum]], %[[lse]] = cross_entropy_sum(%y, %labels) {ignore_index=-100, label_smoothing=0.0} : f32[], f32[2] chunk 1
// CHECK: [[mean]] = mul(%[[sum]], %[[inverse]]) : f32[] chunk 1
// CHECK: [[half]] = cast(%[[mean]]) {to=bf16} : bf16[] chunk 1
// CHECK: [[scaled]] = mul(%[[half]], %two) : bf16[] chunk 1
// CHECK: [[loss]] = cast(%[[scaled]]) {to=f32} : f32[] chunk 1
// CHECK: loss %[[loss]]
graph {
  %x = input "x" : bf16[2, 3]
  %labels = input "labels" : i64[2]
  %two = input "two" : bf16[]
  %w = parameter ["w"] : bf16[7, 3]
  %y = linear(%x, %w) chunk 0
  %ce = cross_entropy_loss(%y, %labels) chunk 1
  %loss = mul(%ce, %two) chunk 1
  output "loss" = %loss
  loss %loss
}
