// With a loss scale every rank hears whether a gradient overflows anywhere before it updates; gradients travel in the type
// of `reduce` and are added in f32.
// RUN-PASSES: insert_gradient_work
// CHECK: scalar 0 "overflow" "the number of gradients that overflow" "the number of gradients that overflow" f32 [] read by skips
// CHECK: scalar 1 "grad_scale" "the factor on gradients" "the factor on gradients" f32 [] read by updates
// CHECK: node 4 all_reduce gradients 0 microbatches [] teams 0 f32 message bf16 on 0 stream 1
// CHECK: node 5 check 0 on 0
// CHECK: node 6 all_reduce scalar 0 teams 0 f32 on 0 stream 2
// CHECK: node 7 unscale 1 on 0
// CHECK: node 8 advance on 0
// CHECK: node 9 update 0 on 0
// CHECK: edges 6 [7..8]
module {
  step batch 8 microbatches 2 split cut
  training clip 0.0
  precision compute f16 master f32 reduce bf16 loss_scale dynamic 65536.0
  lowered
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %x = input "x" : f16[2, 2]
    %v = parameter ["v"] : f16[2, 2] master f32 stored f32
    %w = parameter ["w"] : f16[2, 2] master f32 stored f32
    %y = linear(%x, %v, none) chunk 0
    %z = linear(%y, %w, none) chunk 0
    %w_grad = linear_backward_weight(%z, %y) phase backward chunk 0
    %w_wide = cast(%w_grad) {to=f32} phase backward chunk 0
    accumulate_grad(%w_wide) {parameter=%w} phase backward chunk 0
    %v_grad = linear_backward_weight(%z, %x) phase backward chunk 0
    %v_wide = cast(%v_grad) {to=f32} phase backward chunk 0
    accumulate_grad(%v_wide) {parameter=%v} phase backward chunk 0
  }
}
distribution {
  world 2
  stream 0 "compute"
  stream 1 "dp"
  group 0 [0..1]
  teams 0 [[0..1]]
  chunk 0 {
    groups [0 x2]
    replicate bucket 4096 stream 1 gather 1 sharded nothing residency use prefetch 1
  }
}
dag {
  node 0 compute F 0 0 on 0 stream 0
  node 1 compute F 0 1 on 0 stream 0
  node 2 compute B 0 0 on 0 stream 0
  node 3 compute B 0 1 on 0 stream 0
  edges 0 [2]
  edges 1 [3]
}
state {
  accumulator 0 parameter 0 chunks [0] group 0 bucket 0 offset 64 bytes 16
  accumulator 1 parameter 1 chunks [0] group 0 bucket 0 offset 0 bytes 16
  bucket 0 "all/w" group 0 teams 0 of 2 accumulators [1, 0] bytes 128 moments whole gradients whole parameters whole residency use prefetch 1 stream 1 gather 1 working f16
}
