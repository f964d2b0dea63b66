// Places in a module are places in the strategy: its line is shown, here the one in these comments.
// RUN-PASSES: check_boundaries
// strategy: directives:
// strategy:   - {op: replicate, filter: {PP: 0}, devices: [0, 1]}
// expect-error@+1 P0216: {{PP0 on 2 devices feeds PP1 on 3: neither number divides the other}}
// strategy:   - {op: replicate, filter: {PP: 1}, devices: [2, 3, 4]}
// CHECK: 6 |   - {op: replicate, filter: {PP: 1}, devices: [2, 3, 4]}
// CHECK: |                                               ^
// CHECK: 4 |   - {op: replicate, filter: {PP: 0}, devices: [0, 1]}
// CHECK: |                                               ^
module {
  step batch 6 microbatches 1 cut
  training clip 0.0
  lowered
}
variant 3 {
  chunk 0 "PP0"
  chunk 1 "PP1"
  graph {
    %x = input "x" : f32[3, 2]
    %y = relu(%x) chunk 0
    %z = relu(%y) chunk 1
    output "z" = %z
  }
}
variant 2 {
  chunk 0 "PP0"
  chunk 1 "PP1"
  graph {
    %x = input "x" : f32[2, 2]
    %y = relu(%x) chunk 0
    %z = relu(%y) chunk 1
    output "z" = %z
  }
}
distribution {
  world 5
  stream 0 "compute"
  group 0 [0..1]
  group 1 [2..4]
  chunk 0 {
    groups [0]
    devices [@1:4:47+6]
  }
  chunk 1 {
    groups [1]
    devices [@1:6:47+9]
  }
}
