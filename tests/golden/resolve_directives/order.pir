// An order is a list of slots; halves of a backward that it names split the backward of their chunks.
// RUN-PASSES: resolve_directives
// strategy: model: {batch: 8}
// strategy: optimizer: {sgd: {lr: 0.1}}
// strategy: directives:
// strategy:   - {op: order, filters: [[{PP: 1, MB: 0, PASS: F}, {PP: 0, MB: 1, PASS: F}], [{PP: 1, PASS: BI}], [{PP: 1, PASS: BW}]]}
// CHECK: chunk 0 {
// CHECK-NOT: backward_split
// CHECK: chunk 1 {
// CHECK: backward_split
// CHECK: told_apart_by ["MB", "PP"]
// CHECK: slot {
// CHECK: chunks [1] microbatches [0] phases [F]
// CHECK: chunks [0] microbatches [1] phases [F]
// CHECK: slot {
// CHECK: chunks [1] microbatches [0..1] phases [B] half
// CHECK: slot {
// CHECK: chunks [1] microbatches [0..1] phases [BW] half
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
