// Parts are kept by the groups of `parts_over`, and added up by the members that keep the same one.
// RUN-PASSES: form_buckets
// CHECK: 0..1], [2..3]]
// CHECK: 0, 2], [1, 3]]
// CHECK: bucket 0 "all/w" group 0 teams 0 of 2 across 1 accumulators [1, 0] bytes 128 moments part gradients part parameters part
module {
  step batch 16 microbatches 2 split cut
  training clip 0.0
  lowered
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %x = input "x" : f32[2, 2]
    %v = parameter ["v"] : f32[2, 2]
    %w = parameter ["w"] : f32[2, 2]
    %y = linear(%x, %v, none) chunk 0
    %z = linear(%y, %w, none) chunk 0
    %w_grad = linear_backward_weight(%z, %y) phase backward chunk 0
    accumulate_grad(%w_grad) {parameter=%w} phase backward chunk 0
    %v_grad = linear_backward_weight(%z, %x) phase backward chunk 0
    accumulate_grad(%v_grad) {parameter=%v} phase backward chunk 0
  }
}
distribution {
  world 4
  stream 0 "compute"
  stream 1 "dp"
  group 0 [0..3]
  chunk 0 {
    groups [0 x2]
    replicate bucket 4096 stream 1 gather 1 sharded parameters residency use prefetch 1 parts_over [[0..1], [2..3]]
  }
}
