// A table and a head alone are nothing for Muon.
// RUN-PASSES: choose_rules
// strategy: model: {batch: 2}
// expect-error@+1 P0251: {{the model has no hidden layer's matrix for 'muon' to update}}
// strategy: optimizer: {muon: {lr: 0.02, rest: {adamw: {lr: 0.001}}}}
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %ids = input "ids" : i64[2]
    %labels = input "labels" : i64[2]
    %table = parameter ["table"] : f32[8, 4]
    %head = parameter ["head"] : f32[8, 4]
    %a = embedding(%table, %ids) {padding_idx=-1} chunk 0
    %scores = linear(%a, %head, none) chunk 0
    %capped = tanh(%scores) chunk 0
    %loss, %lse = cross_entropy_sum(%capped, %labels, none) {ignore_index=-100, label_smoothing=0.0} chunk 0
  }
}
distribution {
  world 1
  stream 0 "compute"
  group 0 [0]
  chunk 0 {
    groups [0]
  }
}
