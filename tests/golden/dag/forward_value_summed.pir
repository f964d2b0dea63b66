// Both ranks of a replica sum a value of the forward, all that a chunk does: behind the pass that makes what is summed,
// and before the pass that reads the sum.
// RUN-PASSES: order_nodes,lay_out_state
// CHECK: node 4 all_reduce value F 1 0 %y teams 0 f32 on 0 stream 1
// CHECK: order [0, 4, 2, 1, 5, 3]
// CHECK: owners parameters [0 x2] buffers [] unread [0..1]
module {
  step batch 8 microbatches 2 split
  training clip 0
}
variant 2 {
  chunk 0 "PP0" region 0
  chunk 1 "PP0.sum" region 0 exchange
  chunk 2 "PP1" region 1
  graph {
    prov 0 unknown "test"
    %x = input "x" : f32[2, 4]
    %w = parameter ["w"] : f32[4, 4]
    %v = parameter ["v"] : f32[4, 4]
    %share = matmul(%x, %w) : f32[2, 4] chunk 0 prov 0
    %y = all_reduce(%share) : f32[2, 4] chunk 1 prov 0
    %z = matmul(%y, %v) : f32[2, 4] chunk 2 prov 0
    output "z" = %z
  }
}
distribution {
  world 2
  stream 0 "compute"
  stream 1 "tp"
  group 0 [0..1] places 2
  teams 0 [[0..1]]
  chunk 0 {
    groups [0 x2]
  }
  chunk 1 {
    groups [0 x2]
  }
  chunk 2 {
    groups [0 x2]
  }
}
dag {
  node 0 compute F 0 0 on 0 stream 0
  node 1 compute F 0 1 on 0 stream 0
  node 2 compute F 2 0 on 0 stream 0
  node 3 compute F 2 1 on 0 stream 0
  node 4 all_reduce value F 1 0 %y teams 0 f32 on 0 stream 1
  node 5 all_reduce value F 1 1 %y teams 0 f32 on 0 stream 1
  edges 0 [4]
  edges 1 [5]
  edges 4 [2]
  edges 5 [3]
}
state {
}
