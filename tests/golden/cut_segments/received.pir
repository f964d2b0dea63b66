// Products are not repeated, so that a cut between two of them keeps nothing. But both read what was received: as one
// segment, the gradient of it is added up by the products that make it.
// RUN-PASSES: cut_segments
// CHECK: chunk 1 "PP0" tags ["PP" 0] region 1
// CHECK: chunk 2 "loss"
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 1 {
  tag "PP" 1
  chunk 0 "sent" exchange
  chunk 1 "PP0" tags ["PP" 0]
  chunk 2 "loss"
  graph {
    %x = input "x" : f32[1, 2]
    %u = parameter ["u"] : f32[2, 2]
    %v = parameter ["v"] : f32[2, 2]
    %y = enter(%x) chunk 0
    %a = linear(%y, %u, none) chunk 1
    %b = linear(%y, %v, none) chunk 1
    %c = mul(%a, %b) chunk 1
    %loss = sum(%c) {dims=[0, 1]} chunk 2
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
  }
  chunk 1 {
    groups [0]
    replicate bucket 16 stream 1 gather 1 sharded nothing residency use prefetch 1
    segment 16
    recomputed [1]
    repeats all_but_products layers 1.0
  }
  chunk 2 {
    groups [0]
  }
}
schedule {
  told_apart_by ["PP"]
  order {
    slot {
      member "{PP: 0}" chunks [0..1] microbatches [0] phases [F] @0:0:0+1
    }
    slot {
      member "{}" chunks [2] microbatches [0] phases [F] @0:0:0+1
    }
  }
}
