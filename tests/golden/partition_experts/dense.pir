// Every expert on every token: tokens go to both devices, the gate's columns to their owners; each device sums
// over its own experts, and the shares come back to be added. Each exchange is a chunk of its own.
// RUN-PASSES: partition_experts, autodiff
// PARAMS: devices=2, sharded=0
// CHECK: %router = parameter ["router"] : f32[4, 8]
// CHECK: %w1 = parameter ["w1"] : f32[2, 8, 16] shards 2 by 0
// CHECK: %w2 = parameter ["w2"] : f32[2, 16, 8] shards 2 by 0 frozen
// CHECK: softmax
// CHECK: %[[all]] = expand(%[[one]]) {shape=[2, 6, 8]} : f32[2, 6, 8] chunk 0
// CHECK: %[[tokens]] = all_to_all(%[[all]]) : f32[2, 6, 8] chunk 1
// CHECK: %[[rows]] = reshape(%[[tokens]]) {shape=[12, 8]} : f32[12, 8] chunk 3
// CHECK: matmul(%[[rows]]
// CHECK: %[[made]] = matmul(%[[a]], %w2) : f32[2, 12, 8] chunk 3
// CHECK: %[[columns]] = all_to_all(%[[g]]) : f32[2, 6, 2, 1] chunk 2
// CHECK: %[[share]] = matmul(%[[m]], %[[gate]]) : f32[12, 8, 1] chunk 3
// CHECK: %[[shares]] = all_to_all(%[[parts]]) : f32[2, 6, 8, 1] chunk 4
// CHECK: sum(%[[shares]]) {dims=[0], keepdim=false} : f32[6, 8, 1] chunk 5
// CHECK: %[[back]] = all_to_all(%[[gy]]) : f32[2, 6, 8, 1] phase backward chunk 4
// CHECK: accumulate_grad(%[[dw]]) {parameter=%w1} phase backward chunk 3
graph {
  %x = input "x" : f32[6, 8]
  %router = parameter ["router"] : f32[4, 8]
  %w1 = parameter ["w1"] : f32[4, 8, 16]
  %w2 = parameter ["w2"] : f32[4, 16, 8] frozen
  %logits = linear(%x, %router, none)
  %gate = softmax(%logits) {dim=1}
  %p = permute(%w1) {dims=[1, 0, 2]}
  %columns = reshape(%p) {shape=[8, 64]}
  %h0 = matmul(%x, %columns)
  %h1 = reshape(%h0) {shape=[6, 4, 16]}
  %h = permute(%h1) {dims=[1, 0, 2]}
  %a = gelu(%h) {approximate="none"}
  %z = matmul(%a, %w2)
  %zt = permute(%z) {dims=[1, 2, 0]}
  %g = reshape(%gate) {shape=[6, 4, 1]}
  %y = matmul(%zt, %g)
  %s = sum(%y) {dims=[0, 1, 2]}
  loss %s
}
