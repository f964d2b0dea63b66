// Each expert takes three rows of a rank's twelve, so a part that travels has six; what is over is counted.
// RUN-PASSES: partition_experts
// PARAMS: devices=2, sharded=0, capacity=1
// CHECK: %w = parameter ["w"] : f32[2, 8, 8] shards 2 by 0
// CHECK: %[[order]], %[[position]], %[[counts]], %[[over]] = expert_order(%ids) {experts=4, segments=2, capacity=3, strict=false} : i64[12], i64[12], i64[2, 2], i64[] chunk 0
// CHECK: %[[incoming]] = all_to_all(%[[counts]]) : i64[2, 2] chunk 1
// CHECK: %[[rows]] = take_rows(%x, %[[order]], %[[position]]) {repeat=1} : f32[12, 8] chunk 0
// CHECK: %[[received]] = all_to_all(%[[parts]], %[[sent]], %[[expected]]) : f32[2, 6, 8] chunk 3
// CHECK: grouped_expand(%b, %[[incoming]]) {rows=12} : f32[12, 8] chunk 4
// CHECK: reshape(%[[sum]]) {shape=[12, 4, 2]} : f32[12, 4, 2] chunk 4
// CHECK: %[[back]] = all_to_all(%[[made]], %[[expected]], %[[sent]]) : f32[2, 6, 8] chunk 5
// CHECK: take_rows(%[[returned]], %[[position]], %[[order]]) {repeat=1} : f32[12, 8] chunk 6
// CHECK: dropped %[[over]]
graph {
  %x = input "x" : f32[12, 8]
  %ids = input "ids" : i64[12]
  %w = parameter ["w"] : f32[4, 8, 8]
  %b = parameter ["b"] : f32[4, 8]
  %order, %position, %counts, %dropped = expert_order(%ids) {experts=4, segments=1, capacity=12}
  %rows = take_rows(%x, %order, %position) {repeat=1}
  %h = grouped_matmul(%rows, %w, %counts) {transposed=false}
  %bias = grouped_expand(%b, %counts) {rows=12}
  %sum = add(%h, %bias)
  %halves = reshape(%sum) {shape=[12, 4, 2]}
  %a = tanh(%halves)
  %whole = reshape(%a) {shape=[12, 8]}
  %y = take_rows(%whole, %position, %order) {repeat=1}
  %s = sum(%y) {dims=[0, 1]}
  loss %s
}
