// Terms are found through what is linear: of a difference, of a sum over what is joined. What no operator makes is made by one, so
// that a program adds it up.
// RUN-PASSES: lower_programs, build_dag, insert_transfers, form_buckets, insert_gradient_work, order_nodes, lay_out_state, lay_out_training, derive_evaluation, emit_plans
// strategy: model: {batch: 2}
// strategy: optimizer: {sgd: {lr: 0.1}}
// strategy: eval: {batches: 2}
// CHECK: {"sum":"loss 0","count":"loss 0 count"}
// CHECK: {"sum":"loss 1"}
// CHECK: {"args":"all.F","in":["x","param all/w","mask","const one","const scalar","const scalar","loss 0 sum"
module {
  step batch 2 microbatches 1
  training clip 0.0 update 0
}
provenance {
  prov 0 directive "place" "s.yaml:3:5"
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %x = input "x" : f32[2, 3]
    %mask = input "mask" : f32[2, 3]
    %w = parameter ["w"] : f32[3, 3]
    %one = constant : f32[] data [1.0]
    %y = linear(%x, %w, none) chunk 0
    %kept = mul(%y, %mask) chunk 0
    %s = sum(%kept) {dims=[0, 1], keepdim=false} chunk 0
    %c = sum(%mask) {dims=[0, 1], keepdim=false} chunk 0
    %mean = div(%s, %c) chunk 0
    %all = mean(%y) {dims=[0, 1], keepdim=false} chunk 0
    %a = reshape(%mean) {shape=[1]} chunk 0
    %b = reshape(%all) {shape=[1]} chunk 0
    %both = cat(%a, %b) {dim=0} chunk 0
    %sum = sum(%both) {dims=[0], keepdim=false} chunk 0
    %loss = sub(%one, %sum) chunk 0
    %w_grad = linear_backward_weight(%y, %x) phase backward chunk 0
    accumulate_grad(%w_grad) {parameter=%w} phase backward chunk 0
    loss %loss
  }
}
distribution {
  world 1
  stream 0 "compute"
  group 0 [0]
  chunk 0 {
    groups [0 x1]
    placed 0
  }
}
