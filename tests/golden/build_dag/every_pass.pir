// There is a node for every chunk, phase and microbatch; edges say whose results it reads.
// RUN-PASSES: build_dag
// CHECK: node 0 compute F 0 0 on 0
// CHECK: node 1 compute F 0 1 on 0
// CHECK: node 2 compute F 1 0 on 1
// CHECK: node 3 compute F 1 1 on 1
// CHECK: node 4 compute B 1 0 on 1
// CHECK: node 5 compute B 1 1 on 1
// CHECK: node 6 compute B 0 0 on 0
// CHECK: node 7 compute B 0 1 on 0
// CHECK-NOT: node 8
// CHECK: edges 0 [6]
// CHECK: edges 2 [4]
// CHECK: edges 0 [2]
// CHECK: edges 4 [6]
module {
  step batch 8 microbatches 2 split cut
  training clip 0.0
  lowered
}
variant 4 {
  chunk 0 "PP0" region 0
  chunk 1 "PP1" region 1
  graph {
    %x = input "x" : f32[4, 3]
    %y = relu(%x) chunk 0
    %z = relu(%y) chunk 1
    %z_grad = relu_backward(%z, %z) phase backward chunk 1
    %y_grad = relu_backward(%z_grad, %y) phase backward chunk 0
    output "z" = %z
  }
}
distribution {
  world 2
  stream 0 "compute"
  stream 1 "pp"
  group 0 [0]
  group 1 [1]
  chunk 0 {
    groups [0 x2]
    messages 1
  }
  chunk 1 {
    groups [1 x2]
    messages 1
  }
}
