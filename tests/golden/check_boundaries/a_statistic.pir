// What goes between groups of different sizes is per sample: a statistic of a piece is not that of the other group's
// pieces.
// RUN-PASSES: check_boundaries
module {
  step batch 4 microbatches 1 cut
  training clip 0.0
  lowered
}
variant 4 {
  chunk 0 "PP0"
  chunk 1 "PP1"
  graph {
    %x = input "x" : f32[4, 2]
    %m = mean(%x) {dims=[0]} chunk 0
    %z = relu(%m) chunk 1
    output "z" = %z
  }
}
variant 2 {
  chunk 0 "PP0"
  chunk 1 "PP1"
  graph {
    %x = input "x" : f32[2, 2]
    %m = mean(%x) {dims=[0]} chunk 0
    %z = relu(%m) chunk 1
    output "z" = %z
  }
}
distribution {
  world 3
  stream 0 "compute"
  group 0 [0]
  group 1 [1..2]
  chunk 0 {
    groups [0]
    devices [@1:36:5+7]
  }
  chunk 1 {
    groups [1]
    // expect-error@+1 P0511: {{'m' goes from PP0 on 1 devices to PP1 on 2}}
    devices [@1:41:5+7]
  }
}
