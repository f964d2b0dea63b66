// Counts travel first; then rows do, of which only the counted ones are sent, to products that take a part from each
// source; the rows come back to where the order put them.
// RUN-PASSES: partition_experts
// PARAMS: devices=2, sharded=0
// CHECK: %w = parameter ["w"] : f32[2, 8, 8] shards 2 by 0
// CHECK: %[[order]], %[[position]], %[[counts]], %[[dropped]] = expert_order(%ids) {experts=4, segments=2, capacity=6, strict=false} : i64[12], i64[6], i64[2, 2], i64[] chunk 0
// CHECK: %[[incoming]] = all_to_all(%[[counts]]) : i64[2, 2] chunk 1
// CHECK: %[[sent]] = sum(%[[counts]]) {dims=[1], keepdim=false} : i64[2] chunk 0
// CHECK: %[[expected]] = sum(%[[incoming]]) {dims=[1], keepdim=false} : i64[2] chunk 2
// CHECK: %[[rows]] = take_rows(%x, %[[order]], %[[position]]) {repeat=1} : f32[12, 8] chunk 0
// CHECK: %[[received]] = all_to_all(%[[parts]], %[[sent]], %[[expected]]) : f32[2, 6, 8] chunk 3
// CHECK: grouped_matmul(%[[side]], %w, %[[incoming]]) {transposed=false} : f32[12, 8] chunk 4
// CHECK: %[[back]] = all_to_all(%[[made]], %[[expected]], %[[sent]]) : f32[2, 6, 8] chunk 5
// CHECK: take_rows(%[[returned]], %[[position]], %[[order]]) {repeat=1} : f32[6, 8] chunk 6
graph {
  %x = input "x" : f32[6, 8]
  %ids = input "ids" : i64[6]
  %w = parameter ["w"] : f32[4, 8, 8]
  %order, %position, %counts, %dropped = expert_order(%ids) {experts=4, segments=1, capacity=6}
  %rows = take_rows(%x, %order, %position) {repeat=1}
  %h = grouped_matmul(%rows, %w, %counts) {transposed=false}
  %y = take_rows(%h, %position, %order) {repeat=1}
  %s = sum(%y) {dims=[0, 1]}
  loss %s
}
