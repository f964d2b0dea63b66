// A region runs from the module that `annotate` names up to that of the next one; an op without a module of its own
// joins its reader, one that nobody reads what it reads from.
// RUN-PASSES: cut_regions
// strategy: model: {batch: 4}
// strategy: annotate: [{tag: PP, starts: [a, b]}]
// strategy: optimizer: {sgd: {lr: 0.1}}
// CHECK: tag "PP" 2
// CHECK: chunk 0 "PP0" tags ["PP" 0]
// CHECK: chunk 1 "PP1" tags ["PP" 1]
// CHECK: %y = linear(%x, %v, none) : f32[4, 2] chunk 0
// CHECK: %z = linear(%y, %w, none) : f32[4, 2] chunk 1
// CHECK: %loss = mean(%z) {dims=[0, 1], keepdim=false} : f32[] chunk 1
module {
  step batch 4 microbatches 1
  training clip 0.0
}
variant 4 {
  graph {
    %x = input "x" : f32[4, 2]
    %v = parameter ["a.weight"] : f32[2, 2]
    %w = parameter ["b.weight"] : f32[2, 2]
    %y = linear(%x, %v, none) scope "a"
    %z = linear(%y, %w, none) scope "b"
    %loss = mean(%z) {dims=[0, 1]}
    loss %loss
  }
}
