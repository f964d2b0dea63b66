// Rows in the order of their experts and back are the rows of their samples: a loss behind them is separable.
// RUN-PASSES: normalise_losses
// PARAMS: local_batch=2, pieces=4
// CHECK: [[eighth]] = constant : f32[] data [48.0]
// CHECK: expert_order(
// CHECK: grouped_matmul(
// CHECK: [[sum]] = sum(%y)
// CHECK: div(%[[sum]], %[[eighth]])
graph {
  %x = input "x" : f32[2, 3]
  %w = parameter ["w"] : f32[4, 3, 3]
  %b = parameter ["b"] : f32[4, 3]
  %router = parameter ["router"] : f32[4, 3]
  %scores = linear(%x, %router)
  %gate, %chosen = topk(%scores) {dim=1, k=2}
  %ids = reshape(%chosen) {shape=[4]}
  %order, %position, %counts, %dropped = expert_order(%ids) {experts=4, segments=1, capacity=4}
  %rows = take_rows(%x, %order, %position) {repeat=2}
  %h = grouped_matmul(%rows, %w, %counts) {transposed=true}
  %bias = grouped_expand(%b, %counts) {rows=4}
  %sum = add(%h, %bias)
  %act = silu(%sum)
  %back = take_rows(%act, %position, %order) {repeat=1}
  %choices = reshape(%back) {shape=[2, 2, 3]}
  %y = reshape(%choices) {shape=[2, 6]}
  %loss = mean(%y) {dims=[0, 1]}
  loss %loss
}
