// Weights of one axis that are smaller than asked, in a bucket of their own, stay whole, their gradients and moments not;
// larger ones, and ones beside a matrix, are cut. A weight that another chunk reads, too, which asks for none, is cut in both.
// RUN-PASSES: form_buckets
// CHECK: bucket 0 "last/shared" group 0 teams 0 of 2 accumulators [5] bytes 128 moments part gradients part parameters part
// CHECK: bucket 1 "all/shared" group 0 teams 0 of 2 accumulators [4] bytes 128 moments part gradients part parameters part
// CHECK: bucket 2 "all/w" group 0 teams 0 of 2 accumulators [3, 2] bytes 640 moments part gradients part parameters part
// CHECK: bucket 3 "all/large" group 0 teams 0 of 2 accumulators [1] bytes 640 moments part gradients part parameters part
// CHECK: bucket 4 "all/small" group 0 teams 0 of 2 accumulators [0] bytes 128 moments part gradients part parameters whole
module {
  step batch 8 microbatches 2 split cut
  training clip 0.0
  lowered
}
variant 2 {
  chunk 0 "all" region 0
  chunk 1 "last" region 1
  graph {
    %x = input "x" : f32[2, 16]
    %u = input "u" : f32[2, 150]
    %small = parameter ["small"] : f32[8]
    %large = parameter ["large"] : f32[150]
    %beside = parameter ["beside"] : f32[8]
    %w = parameter ["w"] : f32[8, 16]
    %shared = parameter ["shared"] : f32[8]
    %a = linear(%x, %w, none) chunk 0
    %b = mul(%a, %small) chunk 0
    %c = mul(%b, %beside) chunk 0
    %d = mul(%c, %shared) chunk 0
    %e = mul(%u, %large) chunk 0
    %z = mul(%d, %shared) chunk 1
    %row = sum(%z) {dims=[0], keepdim=false} phase backward chunk 1
    accumulate_grad(%row) {parameter=%shared} phase backward chunk 1
    %here = sum(%d) {dims=[0], keepdim=false} phase backward chunk 0
    accumulate_grad(%here) {parameter=%shared} phase backward chunk 0
    accumulate_grad(%here) {parameter=%small} phase backward chunk 0
    accumulate_grad(%here) {parameter=%beside} phase backward chunk 0
    %of_u = sum(%e) {dims=[0], keepdim=false} phase backward chunk 0
    accumulate_grad(%of_u) {parameter=%large} phase backward chunk 0
    %of_w = linear_backward_weight(%d, %x) phase backward chunk 0
    accumulate_grad(%of_w) {parameter=%w} phase backward chunk 0
  }
}
distribution {
  world 2
  stream 0 "compute"
  stream 1 "dp"
  group 0 [0..1]
  chunk 0 {
    groups [0 x2]
    replicate bucket 560 stream 1 gather 1 sharded parameters residency use prefetch 1 whole_below 64
  }
  chunk 1 {
    groups [0 x2]
    replicate bucket 560 stream 1 gather 1 sharded parameters residency use prefetch 1
  }
}
