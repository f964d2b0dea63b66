// What a backward gathers again is gathered before the compute that comes before its first reader, not when the forward
// has made what it reads.
// RUN-PASSES: delay_gathers
// CHECK: order [0..3, 5, 4, 6]
module {
  step batch 4 microbatches 1
  training clip 0.0
  lowered
}
variant 4 {
  chunk 0 "PP0" region 0
  chunk 1 "PP0.gather" region 0 exchange
  chunk 2 "PP0.rest" region 0
  chunk 3 "PP0.gather.again" region 0 exchange again
  chunk 4 "PP1" region 1
  graph {
    %x = input "x" : f32[4, 3]
    %p = sin(%x) chunk 0
    %w = all_gather(%p) {parts=2, cut=0} chunk 1
    %y = tanh(%w) chunk 2
    %z = tanh(%y) chunk 4
    %y_grad = tanh_backward(%z, %z) phase backward chunk 4
    %again = all_gather(%p) {parts=2, cut=0} phase backward chunk 3
    %g = tanh_backward(%y_grad, %again) phase backward chunk 2
    output "z" = %z
  }
}
distribution {
  world 2
  stream 0 "compute"
  stream 1 "tp"
  group 0 [0..1] places 2
  teams 0 [[0..1]]
  cut 0 [[0..1]] stream 1 @0:0:0+1
  chunk 0 {
    groups [0]
  }
  chunk 1 {
    groups [0]
  }
  chunk 2 {
    groups [0]
  }
  chunk 3 {
    groups [0]
  }
  chunk 4 {
    groups [0]
  }
}
dag {
  node 0 compute F 0 0 on 0 stream 0
  node 1 all_gather value F 1 0 %w teams 0 f32 on 0 stream 1
  node 2 compute F 2 0 on 0 stream 0
  node 3 compute F 4 0 on 0 stream 0
  node 4 compute B 4 0 on 0 stream 0
  node 5 all_gather value B 3 0 %again teams 0 f32 on 0 stream 1
  node 6 compute B 2 0 on 0 stream 0
  edges 0 [1, 5]
  edges 1 [2]
  edges 2 [3, 6]
  edges 3 [4]
  edges 4 [6]
  edges 5 [6]
  order [0, 1, 5, 2, 3, 4, 6]
}
