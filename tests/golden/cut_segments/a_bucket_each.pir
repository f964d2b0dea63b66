// A region whose parameters do not fit one bucket is cut from its end; orders and rows of the distribution go on with
// all of its segments. Its forward is repeated, and what crosses the cut, 8 bytes, is an eighth of what is made after
// it, and less of the parameter that is read before it.
// RUN-PASSES: cut_segments
// CHECK: chunk 0 "PP0/1" tags ["PP" 0] region 0
// CHECK: chunk 1 "PP0/2" tags ["PP" 0] region 0
// CHECK: chunk 2 "loss" region 1
// CHECK: linear(%x, %u, none) : f32[1, 2] chunk 0
// CHECK: linear(%a, %v, none) : f32[1, 2] chunk 1
// CHECK: linear(%r6, %w, none) : f32[1, 2] chunk 1
// CHECK: chunk 1 {
// CHECK: replicate bucket 32
// CHECK: recomputed [1]
// CHECK: chunk 2 {
// CHECK-NOT: recomputed
// CHECK: member "{PP: 0}" chunks [0..1]
// CHECK: member "{}" chunks [2]
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 1 {
  tag "PP" 1
  chunk 0 "PP0" tags ["PP" 0]
  chunk 1 "loss"
  graph {
    %x = input "x" : f32[1, 16]
    %u = parameter ["u"] : f32[2, 16]
    %v = parameter ["v"] : f32[2, 2]
    %w = parameter ["w"] : f32[2, 2]
    %a = linear(%x, %u, none) chunk 0
    %b = linear(%a, %v, none) chunk 0
    %r1 = relu(%b) chunk 0
    %r2 = relu(%r1) chunk 0
    %r3 = relu(%r2) chunk 0
    %r4 = relu(%r3) chunk 0
    %r5 = relu(%r4) chunk 0
    %r6 = relu(%r5) chunk 0
    %c = linear(%r6, %w, none) chunk 0
    %loss = sum(%c) {dims=[0, 1]} chunk 1
    loss %loss
  }
}
distribution {
  world 2
  stream 0 "compute"
  stream 1 "dp"
  group 0 [0..1]
  chunk 0 {
    groups [0]
    replicate bucket 32 stream 1 gather 1 sharded nothing residency use prefetch 1
    segment 32
    recomputed [1]
  }
  chunk 1 {
    groups [0]
  }
}
schedule {
  told_apart_by ["PP"]
  order {
    slot {
      member "{PP: 0}" chunks [0] microbatches [0] phases [F] @0:0:0+1
    }
    slot {
      member "{}" chunks [1] microbatches [0] phases [F] @0:0:0+1
    }
  }
}
