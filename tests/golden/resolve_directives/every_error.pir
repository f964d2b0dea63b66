// Every wrong directive is reported in one run, each at its line, and nothing that only follows from one of them.
// RUN-PASSES: resolve_directives
// strategy: model: {batch: 4}
// strategy: optimizer: {sgd: {lr: 0.1}}
// strategy: directives:
// strategy:   - {op: place, filter: {PP: 0}, devices: [0]}
// strategy:   - {op: place, filter: {PP: 1}, devices: [1, 2]}
// expect-error@+1 P0204: {{the filter {PP: 7} matches nothing}}
// strategy:   - {op: place, filter: {PP: 7}, devices: [0]}
// expect-error@+1 P0217: {{PP0 is placed twice}}
// strategy:   - {op: place, filter: {PP: 0}, devices: [3]}
// expect-error@+1 P0215: {{'replicate' over devices [2, 3], but PP1 is placed on a partly different list of devices}}
// strategy:   - {op: replicate, filter: {PP: 1}, devices: [2, 3]}
// expect-error@+1 P0204: {{the filter {PP: 5, PASS: B} matches nothing}}
// strategy:   - {op: order, filters: [[{PP: 0, PASS: F}], [{PP: 5, PASS: B}]]}
module {
  step batch 4 microbatches 1
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
