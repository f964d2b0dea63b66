// The loss itself is not rounded.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=4
// CHECK: [[difference]] = sub(%y, %target) : f16[2, 3]
// CHECK: [[wide]] = cast(%[[difference]]) {to=f32} : f32[2, 3]
// CHECK: [[square]] = mul(%[[wide]], %[[wide]]) : f32[2, 3]
// CHECK: [[sum]] = sum(%[[square]]) {dims=[0, 1], keepdim=false} : f32[]
// CHECK: [[loss]] = div(%[[sum]], %scalar) : f32[]
// CHECK-NOT: to=f16
// CHECK: loss %[[loss]]
graph {
  %x = input "x" : f16[2, 3]
  %target = input "target" : f16[2, 3]
  %w = parameter ["w"] : f16[3, 3]
  %y = linear(%x, %w) chunk 0
  %loss = mse_loss(%y, %target) chunk 0
  loss %loss
}
