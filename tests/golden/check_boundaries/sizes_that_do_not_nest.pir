// Data cross between groups of which one size divides the other; the error stands at the devices of the reader.
// These comments hold no strategy, so no line of it is shown.
// RUN-PASSES: check_boundaries
// CHECK-NOT: |
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
    devices [@1:37:5+7]
  }
  chunk 1 {
    groups [1]
    // expect-error@+1 P0216: {{PP0 on 2 devices feeds PP1 on 3: neither number divides the other}}
    devices [@1:42:5+7]
  }
}
