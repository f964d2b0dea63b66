// 1.1 times a mean of 10 rows is 11 rows, though 1.1 x 40 / 4 is a little more in binary.
// RUN-PASSES: partition_experts
// PARAMS: devices=2, sharded=0, capacity=1.1
// CHECK: expert_order(%ids) {experts=4, segments=2, capacity=11, strict=false} : i64[44], i64[40], i64[2, 2], i64[] chunk 0
graph {
  %x = input "x" : f32[40, 8]
  %ids = input "ids" : i64[40]
  %w = parameter ["w"] : f32[4, 8, 8]
  %order, %position, %counts, %dropped = expert_order(%ids) {experts=4, segments=1, capacity=40}
  %rows = take_rows(%x, %order, %position) {repeat=1}
  %h = grouped_matmul(%rows, %w, %counts) {transposed=false}
  %y = take_rows(%h, %position, %order) {repeat=1}
  %s = sum(%y) {dims=[0, 1]}
  loss %s
}
