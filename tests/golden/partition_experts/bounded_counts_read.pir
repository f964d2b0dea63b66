// Who else reads the counts reads how many rows experts are asked for, whatever they take.
// RUN-PASSES: partition_experts
// PARAMS: devices=2, sharded=0, capacity=1
// CHECK: %order, %position, %counts, %dropped = expert_order(%ids) {experts=4, segments=1, capacity=12, strict=false} : i64[12], i64[12], i64[1, 4], i64[] chunk 0
// CHECK: cast(%counts) {to=f32}
// CHECK: expert_order(%ids) {experts=4, segments=2, capacity=3, strict=false}
graph {
  %x = input "x" : f32[12, 8]
  %ids = input "ids" : i64[12]
  %w = parameter ["w"] : f32[4, 8, 8]
  %order, %position, %counts, %dropped = expert_order(%ids) {experts=4, segments=1, capacity=12}
  %rows = take_rows(%x, %order, %position) {repeat=1}
  %h = grouped_matmul(%rows, %w, %counts) {transposed=false}
  %y = take_rows(%h, %position, %order) {repeat=1}
  %s = sum(%y) {dims=[0, 1]}
  %load = cast(%counts) {to=f32}
  %l = sum(%load) {dims=[0, 1]}
  %t = add(%s, %l)
  loss %t
}
