// Rows of a fixed number per expert travel, those of both devices stand side by side, and they return whole: the
// combine mixes tokens. The dispatch and the combine stay with the tokens.
// RUN-PASSES: partition_experts
// PARAMS: devices=2, sharded=1
// CHECK: %w = parameter ["w"] : f32[2, 8, 8] shards 2 by 0
// CHECK: %b = parameter ["b"] : f32[2, 8] shards 2 by 0
// CHECK: %[[rows]] = matmul(%dispatch, %x) : f32[12, 8] chunk 1
// CHECK: %[[sent]] = reshape(%[[r]]) {shape=[2, 2, 3, 8]} : f32[2, 2, 3, 8] chunk 1
// CHECK: %[[received]] = all_to_all(%[[sent]]) : f32[2, 2, 3, 8] chunk 2
// CHECK: permute(%[[received]]) {dims=[1, 0, 2, 3]} : f32[2, 2, 3, 8] chunk 3
// CHECK: matmul(%[[side]], %w) : f32[2, 6, 8] chunk 3
// CHECK: reshape(%b) {shape=[2, 1, 8]} : f32[2, 1, 8] chunk 3
// CHECK: all_to_all(%[[back]]) : f32[2, 6, 8] chunk 4
// CHECK: matmul(%combine, %[[whole]]) : f32[5, 8] chunk 5
// CHECK: sum(%[[y]]) {dims=[0, 1], keepdim=false} : f32[] chunk 6
graph {
  %x = input "x" : f32[5, 8]
  %dispatch = input "dispatch" : f32[12, 5]
  %combine = input "combine" : f32[5, 12]
  %w = parameter ["w"] : f32[4, 8, 8]
  %b = parameter ["b"] : f32[4, 8]
  %x2 = mul(%x, %x) chunk 0
  %m = matmul(%dispatch, %x) chunk 1
  %r = reshape(%m) {shape=[4, 3, 8]} chunk 1
  %h = matmul(%r, %w) chunk 1
  %b1 = reshape(%b) {shape=[4, 1, 8]} chunk 1
  %hb = add(%h, %b1) chunk 1
  %flat = reshape(%hb) {shape=[12, 8]} chunk 1
  %y = matmul(%combine, %flat) chunk 1
  %o = add(%y, %x2) chunk 2
  %s = sum(%o) {dims=[0, 1]} chunk 2
  loss %s
}
