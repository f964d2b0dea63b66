// A region whose experts are parted becomes chunks of compute and exchanges between them; each has the row of the
// distribution that the region had, and orders go on to name all of them.
// RUN-PASSES: partition_experts
// CHECK: chunk 0 "EP0" tags ["EP" 0] region 0 shard 0
// CHECK: chunk 1 "EP0.to_experts" tags ["EP" 0] region 0 exchange shard 0
// CHECK: chunk 2 "EP0.experts" tags ["EP" 0] region 0 shard 0
// CHECK: chunk 3 "EP0.from_experts" tags ["EP" 0] region 0 exchange shard 0
// CHECK: chunk 4 "EP0.rest" tags ["EP" 0] region 0 shard 0
// CHECK: chunk 5 "rest" region 1
// CHECK: chunk 4 {
// CHECK: replicate bucket 4096
// CHECK: shard 0
// CHECK: chunk 5 {
// CHECK-NOT: shard 0
// CHECK: chunks [0..4]
// CHECK: chunks [5]
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 1 {
  tag "EP" 1
  chunk 0 "EP0" tags ["EP" 0]
  chunk 1 "rest"
  graph {
    %x = input "x" : f32[12, 8]
    %w = parameter ["w"] : f32[4, 8, 8]
    %r = reshape(%x) {shape=[4, 3, 8]} chunk 0
    %h = matmul(%r, %w) chunk 0
    %y = reshape(%h) {shape=[12, 8]} chunk 0
    %loss = sum(%y) {dims=[0, 1]} chunk 1
    loss %loss
  }
}
distribution {
  world 2
  stream 0 "compute"
  stream 1 "ep"
  group 0 [0..1]
  expert_groups 0 [[0..1]] stream 1 @0:0:0+1
  chunk 0 {
    groups [0]
    replicate bucket 4096 stream 1 gather 1 sharded nothing residency use prefetch 1
    shard 0
  }
  chunk 1 {
    groups [0]
    replicate bucket 4096 stream 1 gather 1 sharded nothing residency use prefetch 1
  }
}
schedule {
  told_apart_by ["EP"]
  order {
    slot {
      member "{EP: 0}" chunks [0] microbatches [0] phases [F] @0:0:0+1
    }
    slot {
      member "{}" chunks [1] microbatches [0] phases [F] @0:0:0+1
    }
  }
}
