// A plan is what concerns its rank, in the order of all nodes: rank 1 receives what rank 0 has sent.
// RUN-PASSES: emit_plans
// strategy: model: {batch: 8}
// strategy: optimizer: {sgd: {lr: 0.1}}
// CHECK: "rank":0,
// CHECK-NOT: PP1
// CHECK: {"run":"PP0.F.b4"
// CHECK: {"send":"y m0","count":12,"dtype":"f32","channel":"pp:0>1"
// CHECK: "rank":1,
// CHECK-NOT: PP0
// CHECK: {"recv":"y m0","count":12,"dtype":"f32","channel":"pp:0>1"
// CHECK: {"run":"PP1.F.b4"
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
dag {
  node 0 compute F 0 0 on 0 stream 0
  node 1 transfer value F 0 0 %y to 1 on 0 stream 1
  node 2 compute F 1 0 on 1 stream 0
  edges 0 [1]
  edges 1 [2]
  order [0..2]
}
