// Unreduced cross entropy is log_softmax and gather, with ignored targets at zero.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=4
// CHECK: [[logp]] = log_softmax(%y) {dim=1}
// CHECK: [[ignored]] = eq(%labels, 
// CHECK: [[safe]] = where(%[[ignored]], 
// CHECK: [[picked]] = gather(%[[logp]], 
// CHECK: [[rows]] = where(%[[ignored]], %[[zero]], %[[neg]]) : f32[2]
// CHECK: sum(%[[weighted]]) {dims=[0], keepdim=false}
graph {
  %x = input "x" : f32[2, 3]
  %importance = input "importance" : f32[2]
  %labels = input "labels" : i64[2]
  %w = parameter ["w"] : f32[7, 3]
  %y = linear(%x, %w)
  %rows = cross_entropy_loss(%y, %labels) {reduction="none"}
  %weighted = mul(%rows, %importance)
  %loss = mean(%weighted) {dims=[0]}
  loss %loss
}
