// Regions of the same devices keep parts of unlike groups: a weight of both is kept whole, its parts are other elements.
// RUN-PASSES: form_buckets
// CHECK: bucket 0 "last/w" group 0 teams 0 of 4 accumulators [1] bytes 64 moments whole gradients whole parameters whole
// CHECK: bucket 1 "all/w" group 0 teams 0 of 4 accumulators [0] bytes 64 moments whole gradients whole parameters whole
module {
  step batch 16 microbatches 2 split cut
  training clip 0.0
  lowered
}
variant 2 {
  chunk 0 "all" region 0
  chunk 1 "last" region 1
  graph {
    %x = input "x" : f32[2, 2]
    %w = parameter ["w"] : f32[2, 2]
    %y = linear(%x, %w, none) chunk 0
    %z = linear(%y, %w, none) chunk 1
    %w_grad_2 = linear_backward_weight(%z, %y) phase backward chunk 1
    accumulate_grad(%w_grad_2) {parameter=%w} phase backward chunk 1
    %w_grad = linear_backward_weight(%z, %x) phase backward chunk 0
    accumulate_grad(%w_grad) {parameter=%w} phase backward chunk 0
  }
}
distribution {
  world 4
  stream 0 "compute"
  stream 1 "dp"
  group 0 [0..3]
  chunk 0 {
    groups [0 x2]
    replicate bucket 4096 stream 1 gather 1 sharded gradients residency use prefetch 1 parts_over [[0..1], [2..3]]
  }
  chunk 1 {
    groups [0 x2]
    replicate bucket 4096 stream 1 gather 1 sharded gradients residency use prefetch 1
  }
}
