// A region that is repeated is not cut where an eighth crosses of what is made after it, but more of what is made and read
// before it: it would be kept, and hardly anything is saved. Experts are such a region.
// RUN-PASSES: cut_segments
// CHECK: chunk 0 "PP0" tags ["PP" 0] region 0
// CHECK: chunk 1 "loss"
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 1 {
  tag "PP" 1
  chunk 0 "PP0" tags ["PP" 0]
  chunk 1 "loss"
  graph {
    %x = input "x" : f32[1, 4]
    %p = parameter ["p"] : f32[4, 4]
    %q = parameter ["q"] : f32[2, 4]
    %a = linear(%x, %p, none) chunk 0
    %a_1 = relu(%a) chunk 0
    %a_2 = relu(%a_1) chunk 0
    %a_3 = relu(%a_2) chunk 0
    %a_4 = relu(%a_3) chunk 0
    %a_5 = relu(%a_4) chunk 0
    %a_6 = relu(%a_5) chunk 0
    %a_7 = relu(%a_6) chunk 0
    %a_8 = relu(%a_7) chunk 0
    %b = linear(%a_8, %q, none) chunk 0
    %loss = sum(%b) {dims=[0, 1]} chunk 1
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
    replicate bucket 16 stream 1 gather 1 sharded nothing residency use prefetch 1
    segment 16
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
