// A sum over rows that stand in the order of experts would need those of all devices.
// RUN-PASSES: partition_experts
// PARAMS: devices=2, sharded=0
// expect-error P0333: {{'sum' of node 'total'}}
graph {
  prov 0 model "total" "experts" "model.py:7"
  %x = input "x" : f32[6, 8]
  %ids = input "ids" : i64[6]
  %w = parameter ["w"] : f32[4, 8, 8]
  %order, %position, %counts, %dropped = expert_order(%ids) {experts=4, segments=1, capacity=6}
  %rows = take_rows(%x, %order, %position) {repeat=1}
  %h = grouped_matmul(%rows, %w, %counts) {transposed=false}
  %t = sum(%h) {dims=[0]} prov 0
  %s = sum(%t) {dims=[0]}
  loss %s
}
