// The balance term is each piece's own with weight 1/4; cross entropy keeps the global count.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=4, per_microbatch=*
// CHECK: [[four]] = constant : f32[] data [4.0]
// CHECK: %share = mean(%y) {dims=[0], keepdim=false}
// CHECK: %square = mul(%share, %share)
// CHECK: [[part]] = div(%square, %[[four]]) : f32[7]
// CHECK: [[term]] = sum(%[[part]])
// CHECK: [[scaled]] = mul(%[[term]], %weight)
// CHECK: [[total]] = step_sum(
// CHECK: [[inverse]] = reciprocal(%[[total]])
// CHECK: [[ce]] = mul(%[[sum]], %[[inverse]])
// CHECK: [[loss]] = add(%[[ce]], %[[scaled]])
// CHECK: loss %[[loss]]
graph {
  %x = input "x" : f32[2, 3]
  %labels = input "labels" : i64[2]
  %weight = constant : f32[] data [0.01]
  %w = parameter ["w"] : f32[7, 3]
  %y = linear(%x, %w) scope "mlp.1"
  %share = mean(%y) {dims=[0]} scope "mlp.1"
  %square = mul(%share, %share) scope "mlp.1"
  %balance = sum(%square) {dims=[0]} scope "mlp.1"
  %scaled = mul(%balance, %weight)
  %ce = cross_entropy_loss(%y, %labels)
  %loss = add(%ce, %scaled)
  loss %loss
}
