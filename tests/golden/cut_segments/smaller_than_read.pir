// Modules of a region are repeated. What they read is kept: 16 bytes of %n, or 8 of what they make of it, where a segment
// begins after that.
// RUN-PASSES: cut_segments
// CHECK: cast(%n) {to=bf16} : bf16[1, 4] chunk 0
// CHECK: linear(%c, %p, none) : bf16[1, 8] chunk 1
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
    %u = parameter ["u"] : f32[4, 16]
    %p = parameter ["p"] : bf16[8, 4]
    %q = parameter ["q"] : bf16[4, 8]
    %h = linear(%x, %u, none) chunk 0 scope "h.0"
    %n = relu(%h) chunk 0 scope "h.0"
    %c = cast(%n) {to=bf16} chunk 0 scope "h.0.mlp"
    %a = linear(%c, %p, none) chunk 0 scope "h.0.mlp"
    %a_1 = relu(%a) chunk 0 scope "h.0.mlp"
    %a_2 = relu(%a_1) chunk 0 scope "h.0.mlp"
    %a_3 = relu(%a_2) chunk 0 scope "h.0.mlp"
    %a_4 = relu(%a_3) chunk 0 scope "h.0.mlp"
    %a_5 = relu(%a_4) chunk 0 scope "h.0.mlp"
    %b = linear(%a_5, %q, none) chunk 0 scope "h.0.mlp"
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
    replicate bucket 64 stream 1 gather 1 sharded nothing residency use prefetch 1
    segment 64
    recomputed [1]
    repeats all layers 1.0 modules ["h.*.mlp"]
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
