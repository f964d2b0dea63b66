// A schedule says the rest: where stages run and in which order.
// RUN-PASSES: resolve_directives
// strategy: model: {batch: 8}
// strategy: optimizer: {sgd: {lr: 0.1}}
// strategy: schedule: {family: gpipe, microbatches: 2}
// CHECK: world 2
// CHECK: groups [0 x2]
// CHECK: groups [1 x2]
// CHECK: order @[[place]]
// CHECK: chunks [0] microbatches [0] phases [F]
// CHECK: chunks [0] microbatches [1] phases [F]
// CHECK: chunks [0] microbatches [0] phases [B, BW]
// CHECK: chunks [0] microbatches [1] phases [B, BW]
// CHECK: order
// CHECK: chunks [1] microbatches [0] phases [F]
module {
  step batch 8 microbatches 2 split
  training clip 0.0
}
variant 2 {
  tag "PP" 2
  chunk 0 "PP0" tags ["PP" 0]
  chunk 1 "PP1" tags ["PP" 1]
  graph {
    %x = input "x" : f32[2, 2]
    %w = parameter ["w"] : f32[2, 2]
    %y = linear(%x, %w, none) chunk 0
    %loss = mean(%y) {dims=[0, 1]} chunk 1
    loss %loss
  }
}
