// A group of one device has the bound as well, and nothing travels. A strict bound counts nothing.
// RUN-PASSES: partition_experts
// PARAMS: devices=1, sharded=0, capacity=1.2, overflow=error
// CHECK: %w = parameter ["w"] : f32[4, 8, 8]
// CHECK: %[[order]], %[[position]], %[[counts]], %[[over]] = expert_order(%ids) {experts=4, segments=1, capacity=2, strict=true} : i64[6], i64[6], i64[1, 4], i64[] chunk 0
// CHECK: %[[rows]] = take_rows(%x, %[[order]], %[[position]]) {repeat=1} : f32[6, 8] chunk 0
// CHECK: %[[h]] = grouped_matmul(%[[rows]], %w, %[[counts]]) {transposed=false} : f32[6, 8] chunk 0
// CHECK: take_rows(%[[h]], %[[position]], %[[order]]) {repeat=1} : f32[6, 8] chunk 0
// CHECK-NOT: all_to_all
// CHECK-NOT: dropped
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
