// Tokens that the model repeats for every expert travel once; on the rank they are repeated for its experts.
// RUN-PASSES: partition_experts
// PARAMS: devices=4, sharded=0
// CHECK: %[[tokens]] = all_to_all(%[[t]]) : f32[4, 6, 8] chunk 1
// CHECK: %[[rows]] = reshape(%[[tokens]]) {shape=[24, 8]} : f32[24, 8] chunk 2
// CHECK: %[[each]] = expand(%[[rows]]) {shape=[2, 24, 8]} : f32[2, 24, 8] chunk 2
// CHECK: matmul(%[[each]], %w) : f32[2, 24, 8] chunk 2
// CHECK: sum(%[[made]]) {dims=[0], keepdim=false} : f32[24, 8] chunk 2
// CHECK: all_to_all(%[[shares]]) : f32[4, 6, 8] chunk 3
// CHECK-NOT: all_to_all
graph {
  %x = input "x" : f32[6, 8]
  %w = parameter ["w"] : f32[8, 8, 8]
  %e = expand(%x) {shape=[8, 6, 8]}
  %h = matmul(%e, %w)
  %y = sum(%h) {dims=[0]}
  %s = sum(%y) {dims=[0, 1]}
  loss %s
}
