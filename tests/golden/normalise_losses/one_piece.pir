// With one piece a mean divides by its own count, and batch statistics are left alone.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=1
// CHECK-NOT: step_sum
// CHECK: cross_entropy_count(%labels) {ignore_index=-100, label_smoothing=0.0} : f32[]
// CHECK: add(%
graph {
  %x = input "x" : f32[2, 3]
  %labels = input "labels" : i64[2]
  %w = parameter ["w"] : f32[7, 3]
  %y = linear(%x, %w) chunk 0
  %mean = mean(%y) {dims=[0]} chunk 0
  %square = mul(%mean, %mean) chunk 0
  %extra = sum(%square) {dims=[0]} chunk 0
  %ce = cross_entropy_loss(%y, %labels) chunk 0
  %loss = add(%ce, %extra) chunk 0
  loss %loss
}
