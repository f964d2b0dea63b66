// Parameters that are trained or read in different types stand in different buckets; copies begin on cache lines, too.
// RUN-PASSES: form_buckets
// CHECK: accumulator 0 parameter 0 chunks [0] group 0 bucket 0 offset 0 bytes 16
// CHECK: accumulator 1 parameter 1 chunks [0] group 0 bucket 1 offset 0 bytes 16
// CHECK: bucket 0 "all/v" group 0 teams 0 of 1 accumulators [0] bytes 64
// CHECK: bucket 1 "all/w" group 0 teams 0 of 1 accumulators [1] bytes 128 moments whole gradients whole parameters whole residency use prefetch 1 stream 0 gather 0 working bf16
module {
  step batch 2 microbatches 1
  training clip 0.0
  precision compute bf16 master f32 reduce f32
  lowered
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %x = input "x" : f32[2, 2]
    %v = parameter ["v"] : f32[2, 2]
    %w = parameter ["w"] : bf16[2, 2] master f32 stored f32
    %y = linear(%x, %v, none) chunk 0
    %y16 = cast(%y) {to=bf16} chunk 0
    %z = linear(%y16, %w, none) chunk 0
    %w_grad = linear_backward_weight(%z, %y16) phase backward chunk 0
    %w_wide = cast(%w_grad) {to=f32} phase backward chunk 0
    accumulate_grad(%w_wide) {parameter=%w} phase backward chunk 0
    %v_grad = linear_backward_weight(%y, %x) phase backward chunk 0
    accumulate_grad(%v_grad) {parameter=%v} phase backward chunk 0
  }
}
distribution {
  world 1
  stream 0 "compute"
  group 0 [0]
  chunk 0 {
    groups [0]
  }
}
