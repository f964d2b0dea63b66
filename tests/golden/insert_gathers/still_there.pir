// What would be gathered again while it is still there is kept: one gather serves both forwards.
// RUN-PASSES: insert_gathers
// CHECK: node 4 all_gather parameters 0 for [F 0 0] teams 0 f32 on 0 stream 1
// CHECK-NOT: all_gather
// CHECK: order [4, 0..3]
// CHECK: gather bucket 0 reader 0 from 4
// CHECK: gather bucket 0 reader 1 from 4
module {
  step batch 8 microbatches 2 split cut
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
  world 2
  stream 0 "compute"
  stream 1 "dp"
  group 0 [0..1]
  teams 0 [[0..1]]
  chunk 0 {
    groups [0 x2]
    replicate bucket 4096 stream 1 gather 1 sharded parameters residency use prefetch 1
  }
}
dag {
  node 0 compute F 0 0 on 0 stream 0
  node 1 compute F 0 1 on 0 stream 0
  node 2 compute B 0 0 on 0 stream 0
  node 3 compute B 0 1 on 0 stream 0
  edges 0 [2]
  edges 1 [3]
  order [0, 1, 2, 3]
}
state {
  accumulator 0 parameter 0 chunks [0] group 0 bucket 0 offset 64 bytes 16
  accumulator 1 parameter 1 chunks [0] group 0 bucket 0 offset 0 bytes 16
  bucket 0 "all/w" group 0 teams 0 of 2 accumulators [1, 0] bytes 128 moments part gradients part parameters part residency use prefetch 1 stream 1 gather 1
}
