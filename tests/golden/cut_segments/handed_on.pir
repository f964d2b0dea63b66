// A later chunk of the same devices adds what crosses to something, and its backward reads neither. So a cut would keep it.
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
    %x = input "x" : f32[1, 16]
    %u = parameter ["u"] : f32[2, 16]
    %v = parameter ["v"] : f32[2, 2]
    %h = linear(%x, %u, none) chunk 0
    %y = tanh(%h) chunk 0
    %z = linear(%y, %v, none) chunk 0
    %t = add(%y, %z) chunk 1
    %loss = sum(%t) {dims=[0, 1]} chunk 1
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
    recomputed [1]
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
