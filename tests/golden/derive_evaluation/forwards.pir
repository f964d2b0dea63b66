// An evaluation is the forwards of the step: nothing is dropped out, nothing counted in front of them, nothing updated. Its
// loss is a sum and what that counts, and parameters have the place of the training's.
// RUN-PASSES: lower_programs, build_dag, insert_transfers, form_buckets, insert_gradient_work, order_nodes, lay_out_state, lay_out_training, derive_evaluation, emit_plans
// strategy: model: {batch: 4}
// strategy: optimizer: {sgd: {lr: 0.1}}
// strategy: eval: {data: held_out.bin, every: 10}
// CHECK: "rank":0,
// CHECK: {"run":"PP0.F.b2"
// CHECK: {"update":"sgd
// CHECK: "rank":1,
// CHECK: {"run":"PP1.C.b2"
// CHECK: {"run":"PP1.B.b2"
// CHECK: {"update":"sgd
// CHECK: "rank":0,
// CHECK-NOT: "class":"scalar"
// CHECK-NOT: "kind":"gradient"
// CHECK: {"tensor":"v","kind":"value","dtype":"f32","shape":[3,3],"in":"param PP0/v"}
// CHECK: {"sum":"loss","count":"loss count"}
// CHECK: {"args":"PP0.F m0","microbatch":0,"in":["x m0","param PP0/v",
// CHECK-NOT: update
// CHECK: {"run":"PP0.F.b2","args":"PP0.F m0"
// CHECK-NOT: PP0.B
// CHECK: {"run":"PP0.F.b2","args":"PP0.F m1"
// CHECK: {"recv":"loss count","count":1,"dtype":"f32","channel":"loss:1>0"
// CHECK: "rank":1,
// CHECK-NOT: PP1.C
// CHECK: {"run":"PP1.F.b2","args":"PP1.F m0"
// CHECK: {"run":"PP1.F.b2","args":"PP1.F m1"
// CHECK-NOT: PP1.B
// CHECK: {"send":"loss count","count":1,"dtype":"f32","channel":"loss:1>0"
module {
  step batch 4 microbatches 2 split cut
  training clip 0.0 update 0
}
provenance {
  prov 0 directive "place" "s.yaml:3:5"
}
variant 2 {
  chunk 0 "PP0" region 0
  chunk 1 "PP1" region 1
  graph {
    %x = input "x" : f32[2, 3]
    %labels = input "labels" : i64[2]
    %v = parameter ["v"] : f32[3, 3]
    %w = parameter ["w"] : f32[7, 3]
    %seed_step = seed_step
    %sample_offset = sample_offset
    %h = linear(%x, %v, none) chunk 0
    %y = dropout(%h, %seed_step, %sample_offset) {p=0.5, key=1, outer=1, batch=2, inner=3} chunk 0
    %logits = linear(%y, %w, none) chunk 1
    %counted = cross_entropy_count(%labels) {ignore_index=-100, label_smoothing=0.0} phase count chunk 1
    %total = step_sum(%counted) phase count chunk 1
    %inverse = reciprocal(%total) phase count_finish chunk 1
    %sum, %lse = cross_entropy_sum(%logits, %labels) {ignore_index=-100, label_smoothing=0.0} chunk 1
    %loss = mul(%sum, %inverse) chunk 1
    %w_grad = linear_backward_weight(%logits, %y) phase backward chunk 1
    accumulate_grad(%w_grad) {parameter=%w} phase backward chunk 1
    %y_grad = linear_backward_input(%logits, %w) phase backward chunk 1
    %v_grad = linear_backward_weight(%y_grad, %x) phase backward chunk 0
    accumulate_grad(%v_grad) {parameter=%v} phase backward chunk 0
    loss %loss
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
    placed 0
    messages 1
  }
  chunk 1 {
    groups [1 x2]
    placed 0
    messages 1
  }
}
