// A pair of products whose weights are cut over two places, on two replicas. The share is summed among the ranks of a
// replica where it lies; its gradient is a view. Parts are of the rank's place, sums of gradients among ranks of one
// place. In the norm of all gradients each element counts once.
// RUN-PASSES: add_backward,leave_exchanges,lower_programs,build_dag,insert_transfers,form_buckets,insert_gradient_work,order_nodes,insert_gathers,lay_out_state,lay_out_training,emit_plans
// strategy: model: {batch: 8}
// strategy: optimizer: {sgd: {lr: 0.1}}
// CHECK: "rank":0,
// CHECK: {"communicator":"dp:0,1,2,3/2","ranks":[0,2]},
// CHECK: {"communicator":"loss:0,1,2,3/2","ranks":[0,2]},
// CHECK: {"communicator":"tp:0,1,2,3/2","ranks":[0,1]}
// CHECK: {"tensor":"up","kind":"value","dtype":"f32","shape":[8,3],"in":"param all.rest/down+128","first":0,"count":12,"owner":true}
// CHECK: {"tensor":"down","kind":"value","dtype":"f32","shape":[3,8],"in":"param all.rest/down","first":0,"count":12,"owner":true}
// CHECK: {"run":"all.rest.F.b2","args":"all.rest.F m0"
// CHECK: {"all_reduce":"made m0","count":6,"dtype":"f32","op":"sum","communicator":"tp:0,1,2,3/2","stream":"tp:0,1,2,3/2","at":"all.sum@s.yaml:3:5"}
// CHECK: {"run":"all.rest.2.F.b2","args":"all.rest.2.F m0"
// CHECK: {"run":"all.rest.B.b2","args":"all.rest.B m0"
// CHECK: {"all_reduce":"linear_backward_input_2 m0","count":6,"dtype":"f32","op":"sum","communicator":"tp:0,1,2,3/2","stream":"tp:0,1,2,3/2","at":"all.enter.B@s.yaml:3:5"
// CHECK: {"run":"all.B.b2","args":"all.B m0"
// CHECK: {"run":"norm.r0","args":"gradient norms"
// CHECK: "rank":1,
// CHECK: {"tensor":"in","kind":"value","dtype":"f32","shape":[3,3],"in":"param all.rest.2/down_bias+64"}
// CHECK: {"tensor":"up","kind":"value","dtype":"f32","shape":[8,3],"in":"param all.rest/down+128","first":12,"count":12,"owner":true}
// CHECK: {"tensor":"down","kind":"value","dtype":"f32","shape":[3,8],"in":"param all.rest/down","first":12,"count":12,"owner":true}
// CHECK: {"input":"x","first":0,"count":2,"in":"x m0"}
// CHECK: {"run":"norm.r1","args":"gradient norms"
// CHECK: "rank":2,
// CHECK: {"communicator":"tp:0,1,2,3/2","ranks":[2,3]}
// CHECK: {"tensor":"up","kind":"value","dtype":"f32","shape":[8,3],"in":"param all.rest/down+128","first":0,"count":12}
// CHECK: {"input":"x","first":2,"count":2,"in":"x m0"}
// CHECK: {"run":"norm.none","args":"gradient norms"
// CHECK: "rank":3,
// CHECK: {"tensor":"up","kind":"value","dtype":"f32","shape":[8,3],"in":"param all.rest/down+128","first":12,"count":12}
module {
  step batch 8 microbatches 2 split cut
  training clip 1.0
}
provenance {
  prov 0 unknown "test"
  prov 1 directive "shard" "s.yaml:3:5"
}
variant 2 {
  chunk 0 "all" region 0
  chunk 1 "all.enter" region 0 exchange
  chunk 2 "all.rest" region 0
  chunk 3 "all.sum" region 0 exchange
  chunk 4 "all.rest.2" region 0
  graph {
    %x = input "x" : f32[2, 3]
    %in = parameter ["in"] : f32[3, 3]
    %up = parameter ["up"] : f32[4, 3] cut 0 axis 0 places 2
    %up_bias = parameter ["up_bias"] : f32[4] cut 0 axis 0 places 2
    %down = parameter ["down"] : f32[3, 4] cut 0 axis 1 places 2
    %down_bias = parameter ["down_bias"] : f32[3]
    %stream = linear(%x, %in, none) chunk 0
    %entered = enter(%stream) chunk 1
    %h = linear(%entered, %up, %up_bias) chunk 2
    %a = relu(%h) chunk 2
    %made = linear(%a, %down, none) chunk 2
    %sum = all_reduce(%made) chunk 3
    %y = add(%sum, %down_bias) chunk 4
    %out = add(%y, %stream) chunk 4
    %squared = mul(%out, %out) chunk 4
    %loss = sum(%squared) {dims=[0, 1], keepdim=false} chunk 4
    loss %loss
  }
}
distribution {
  world 4
  stream 0 "compute"
  stream 1 "tp"
  stream 2 "dp"
  group 0 [0..3] places 2
  cut 0 [[0, 1], [2, 3]] stream 1 by 1 @0:0:0+1
  chunk 0 {
    groups [0 x2]
    placed 0
    replicate bucket 4096 stream 2 gather 2 sharded nothing residency use prefetch 1
  }
  chunk 1 {
    groups [0 x2]
    placed 0
    replicate bucket 4096 stream 2 gather 2 sharded nothing residency use prefetch 1
  }
  chunk 2 {
    groups [0 x2]
    placed 0
    replicate bucket 4096 stream 2 gather 2 sharded nothing residency use prefetch 1
  }
  chunk 3 {
    groups [0 x2]
    placed 0
    replicate bucket 4096 stream 2 gather 2 sharded nothing residency use prefetch 1
  }
  chunk 4 {
    groups [0 x2]
    placed 0
    replicate bucket 4096 stream 2 gather 2 sharded nothing residency use prefetch 1
  }
}
