// A region whose forward is repeated is not cut where more crosses than an eighth of what is made after it: that would
// be kept from the forward to the backward.
// RUN-PASSES: cut_segments
// CHECK: chunk 0 "PP0" tags ["PP" 0] region 0
// CHECK: chunk 1 "loss" region 1
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 1 {
  tag "PP" 1
  chunk 0 "PP0" tags ["PP" 0]
  chunk 1 "loss"
  graph {
    %x = input "x" : f32[1, 2]
    %u = parameter ["u"] : f32[2, 2]
    %v = parameter ["v"] : f32[2, 2]
    %w = parameter ["w"] : f32[2, 2]
    %a = linear(%x, %u, none) chunk 0
    %b = linear(%a, %v, none) chunk 0
    %r1 = relu(%b) chunk 0
    %r2 = relu(%r1) chunk 0
    %r3 = relu(%r2) chunk 0
    %r4 = relu(%r3) chunk 0
    %r5 = relu(%r4) chunk 0
    %c = linear(%r5, %w, none) chunk 0
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
