// Ranks of one place sum with each other, and keep parts with each other: they have every sample once. Of experts those
// of one place and one position in their groups.
// RUN-PASSES: form_buckets
// CHECK: 0, 2, 4, 6], [1, 3, 5, 7]]
// CHECK: 0, 4], [1, 5], [2, 6], [3, 7]]
// CHECK: bucket 0 "all/v" group 0 teams 0 of 4 accumulators [0] bytes 256 moments part gradients whole parameters whole
// CHECK: bucket 1 "all/w" group 0 teams 1 of 2 accumulators [1] bytes 128 moments part gradients whole parameters whole
module {
  step batch 16 microbatches 1 cut
  training clip 0.0
  lowered
}
variant 4 {
  chunk 0 "all" region 0
  graph {
    %x = input "x" : f32[4, 2]
    %v = parameter ["v"] : f32[2, 2]
    %w = parameter ["w"] : f32[2, 2] shards 2 by 0
    %y = linear(%x, %v, none) chunk 0
    %z = linear(%y, %w, none) chunk 0
    %w_grad = linear_backward_weight(%z, %y) phase backward chunk 0
    accumulate_grad(%w_grad) {parameter=%w} phase backward chunk 0
    %v_grad = linear_backward_weight(%z, %x) phase backward chunk 0
    accumulate_grad(%v_grad) {parameter=%v} phase backward chunk 0
  }
}
distribution {
  world 8
  stream 0 "compute"
  stream 1 "dp"
  group 0 [0..7] places 2
  expert_groups 0 [[0, 2], [1, 3], [4, 6], [5, 7]] stream 1 @0:0:0+1
  chunk 0 {
    groups [0]
    replicate bucket 4096 stream 1 gather 1 sharded optimizer residency use prefetch 1
    shard 0
  }
}
