// What forwards add up for the log is summed over the ranks of each place, which have every sample once. Rank 0 hears it
// by a message, or joins the ranks of the first place.
// RUN-PASSES: build_dag
// CHECK: 4, 6], [5, 7]]
// CHECK: 0, 4, 6], [5, 7]]
// CHECK: take 0 on 1 stream 0
// CHECK: all_reduce scalar 0 teams 0 f32 on 1 stream 2
// CHECK: transfer scalar 0 to 0 on 1 stream 2
// CHECK: take 1 on 2 stream 0
// CHECK: all_reduce scalar 1 teams 1 i64 on 2 stream 3
module {
  step batch 8 microbatches 2 split cut
  training clip 0.0
  lowered
}
variant 2 {
  chunk 0 "PP0" region 0
  chunk 1 "PP1" region 1
  graph {
    %x = input "x" : f32[2, 3]
    %y = relu(%x) chunk 0
    %loss = sum(%y) {dims=[0, 1]} chunk 1
    %n = cast(%loss) {to=i64} chunk 1
    loss %loss
    dropped %n
  }
}
distribution {
  world 8
  stream 0 "compute"
  stream 1 "pp"
  group 0 [0..3] places 2
  group 1 [4..7] places 2
  chunk 0 {
    groups [0 x2]
    messages 1
  }
  chunk 1 {
    groups [1 x2]
    messages 1
  }
}
