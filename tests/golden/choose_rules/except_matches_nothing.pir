// A glob of `except` that names no matrix which Muon updates says something else than was meant.
// RUN-PASSES: choose_rules
// strategy: model: {batch: 2}
// expect-error@+1 P0251: {{'muon' updates no matrix that '*.router' matches}}
// strategy: optimizer: {muon: {lr: 0.02, except: ["*.router"], rest: {adamw: {lr: 0.001}}}}
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
    %linear = parameter ["linear"] : f32[4, 4]
    %turned = parameter ["turned"] : f32[4, 4]
    %gate = parameter ["block.gate"] : f32[4, 4]
    %added = parameter ["added"] : f32[2, 4]
    %stacked = parameter ["stacked"] : f32[1, 4, 4]
    %frozen = parameter ["frozen"] : f32[4, 4] frozen
    %head = parameter ["head"] : f32[8, 4]
    %a = embedding(%table, %ids) {padding_idx=-1} chunk 0
    %b = linear(%a, %linear, none) chunk 0
    %turned_back = permute(%turned) {dims=[1, 0]} chunk 0
    %c = matmul(%b, %turned_back) chunk 0
    %d = linear(%c, %gate, none) chunk 0
    %e = add(%d, %added) chunk 0
    %one = reshape(%stacked) {shape=[4, 4]} chunk 0
    %f = matmul(%e, %one) chunk 0
    %g = linear(%f, %frozen, none) chunk 0
    %scores = linear(%g, %head, none) chunk 0
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
