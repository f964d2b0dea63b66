// Matrices that are updated as a whole have a bucket of their own. Of two parts, which are as large as the fuller one,
// each has some of them whole: here the largest is in one, the other two, 64 bytes each on cache lines, in the other.
// RUN-PASSES: form_buckets
// CHECK: accumulator 0 parameter 0 chunks [0] group 0 bucket 1 offset 192 bytes 16
// CHECK: accumulator 1 parameter 1 chunks [0] group 0 bucket 1 offset 128 bytes 16
// CHECK: accumulator 2 parameter 2 chunks [0] group 0 bucket 1 offset 0 bytes 128
// CHECK: accumulator 3 parameter 3 chunks [0] group 0 bucket 0 offset 0 bytes 16
// CHECK: bucket 0 "all/rest" group 0 teams 0 of 2 accumulators [3] bytes 128 moments part
// CHECK: bucket 1 "all/large" group 0 teams 0 of 2 accumulators [2, 1, 0] bytes 256 moments part gradients part parameters part residency use prefetch 1 stream 1 gather 1 matrices
module {
  step batch 8 microbatches 2 split cut
  training clip 0.0
  lowered
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %x = input "x" : f32[2, 2]
    %v = parameter ["v"] : f32[2, 2] matrix
    %w = parameter ["w"] : f32[2, 2] matrix
    %large = parameter ["large"] : f32[16, 2] matrix
    %rest = parameter ["rest"] : f32[2, 2]
    %y = linear(%x, %v, none) chunk 0
    %z = linear(%y, %w, none) chunk 0
    %s = linear(%z, %rest, none) chunk 0
    %t = linear(%s, %large, none) chunk 0
    %large_grad = linear_backward_weight(%t, %s) phase backward chunk 0
    accumulate_grad(%large_grad) {parameter=%large} phase backward chunk 0
    %rest_grad = linear_backward_weight(%s, %z) phase backward chunk 0
    accumulate_grad(%rest_grad) {parameter=%rest} phase backward chunk 0
    %w_grad = linear_backward_weight(%z, %y) phase backward chunk 0
    accumulate_grad(%w_grad) {parameter=%w} phase backward chunk 0
    %v_grad = linear_backward_weight(%y, %x) phase backward chunk 0
    accumulate_grad(%v_grad) {parameter=%v} phase backward chunk 0
  }
}
distribution {
  world 2
  stream 0 "compute"
  stream 1 "dp"
  group 0 [0..1]
  chunk 0 {
    groups [0 x2]
    replicate bucket 4096 stream 1 gather 1 sharded parameters residency use prefetch 1
  }
}
