// A note follows the regions that it names and changes nothing else.
// RUN-PASSES: resolve_directives
// strategy: model: {batch: 8}
// strategy: optimizer: {sgd: {lr: 0.1}}
// strategy: directives:
// strategy:   - {op: note, filter: {PP: 1}, text: the last stage}
// CHECK: prov 1 directive "note 'the last stage'"
// CHECK: chunk 0 {
// CHECK-NOT: notes
// CHECK: chunk 1 {
// CHECK: notes [1]
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
