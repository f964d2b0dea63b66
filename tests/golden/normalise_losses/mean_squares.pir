// A mean of per-sample squares divides by the count of all pieces.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=4
// CHECK: %scalar = constant : f32[] data [24.0]
// CHECK: [[sum]] = sum(%square) {dims=[0, 1], keepdim=false} : f32[]
// CHECK: [[loss]] = div(%[[sum]], %scalar)
// CHECK: loss %[[loss]]
graph {
  %x = input "x" : f32[2, 3]
  %target = input "target" : f32[2, 3]
  %w = parameter ["w"] : f32[3, 3]
  %y = linear(%x, %w) chunk 0
  %difference = sub(%y, %target) chunk 0
  %square = mul(%difference, %difference) chunk 0
  %mean = mean(%square) {dims=[0, 1]} chunk 0
  output "loss" = %mean
  loss %mean
}
