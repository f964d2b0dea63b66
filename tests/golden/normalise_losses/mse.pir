// mse_loss is written out; the chunk of the new ops is the loss op's.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=4
// CHECK: data [24.0]
// CHECK-NOT: mse_loss
// CHECK: [[d]] = sub(%y, %target) : f32[2, 3] chunk 3
// CHECK: [[q]] = mul(%[[d]], %[[d]]) : f32[2, 3] chunk 3
// CHECK: [[s]] = sum(%[[q]]) {dims=[0, 1], keepdim=false} : f32[] chunk 3
// CHECK: div(%[[s]], %scalar) : f32[] chunk 3
graph {
  %x = input "x" : f32[2, 3]
  %target = input "target" : f32[2, 3]
  %w = parameter ["w"] : f32[3, 3]
  %y = linear(%x, %w) chunk 3
  %loss = mse_loss(%y, %target) chunk 3
  loss %loss
}
