// A bucket is full inside a layer of a region that is repeated, where few enough bytes cross: 24. The segment goes on to the
// place where the layer begins, where 8 cross.
// RUN-PASSES: cut_segments
// CHECK: linear(%x, %u, none) : f32[1, 2] chunk 0
// CHECK: linear(%h0, %p1, none) : f32[1, 4] chunk 1
// CHECK: add(%h0, %b1) : f32[1, 2] chunk 1
// CHECK: linear(%h1, %p2, none) : f32[1, 4] chunk 2
// CHECK: add(%h1, %b2) : f32[1, 2] chunk 2
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
    %p1 = parameter ["p1"] : f32[4, 2]
    %q1 = parameter ["q1"] : f32[2, 4]
    %p2 = parameter ["p2"] : f32[4, 2]
    %q2 = parameter ["q2"] : f32[2, 4]
    %h0 = linear(%x, %u, none) chunk 0
    %a1 = linear(%h0, %p1, none) chunk 0
    %a1_1 = relu(%a1) chunk 0
    %a1_2 = relu(%a1_1) chunk 0
    %a1_3 = relu(%a1_2) chunk 0
    %a1_4 = relu(%a1_3) chunk 0
    %a1_5 = relu(%a1_4) chunk 0
    %a1_6 = relu(%a1_5) chunk 0
    %a1_7 = relu(%a1_6) chunk 0
    %a1_8 = relu(%a1_7) chunk 0
    %a1_9 = relu(%a1_8) chunk 0
    %a1_10 = relu(%a1_9) chunk 0
    %a1_11 = relu(%a1_10) chunk 0
    %a1_12 = relu(%a1_11) chunk 0
    %b1 = linear(%a1_12, %q1, none) chunk 0
    %h1 = add(%h0, %b1) chunk 0
    %a2 = linear(%h1, %p2, none) chunk 0
    %a2_1 = relu(%a2) chunk 0
    %a2_2 = relu(%a2_1) chunk 0
    %a2_3 = relu(%a2_2) chunk 0
    %a2_4 = relu(%a2_3) chunk 0
    %a2_5 = relu(%a2_4) chunk 0
    %a2_6 = relu(%a2_5) chunk 0
    %a2_7 = relu(%a2_6) chunk 0
    %a2_8 = relu(%a2_7) chunk 0
    %a2_9 = relu(%a2_8) chunk 0
    %a2_10 = relu(%a2_9) chunk 0
    %a2_11 = relu(%a2_10) chunk 0
    %a2_12 = relu(%a2_11) chunk 0
    %b2 = linear(%a2_12, %q2, none) chunk 0
    %h2 = add(%h1, %b2) chunk 0
    %loss = sum(%h2) {dims=[0, 1]} chunk 1
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
