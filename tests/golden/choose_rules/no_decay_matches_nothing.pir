// A list of which no glob names a parameter would let everything decay.
// RUN-PASSES: choose_rules
// strategy: model: {batch: 2}
// expect-error@+1 P0261: {{no parameter that 'adamw' updates matches '*ln*'}}
// strategy: optimizer: {adamw: {lr: 0.001, weight_decay: 0.1, no_decay: ["*ln*"]}}
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "all" region 0
  graph {
    %x = input "x" : f32[2, 4]
    %labels = input "labels" : i64[2]
    %weight = parameter ["norm.weight"] : f32[4]
    %head = parameter ["head.weight"] : f32[8, 4]
    %y, %rstd = rms_norm(%x, %weight) {axes=1, eps=1e-06} chunk 0
    %scores = linear(%y, %head, none) chunk 0
    %loss, %lse = cross_entropy_sum(%scores, %labels, none) {ignore_index=-100, label_smoothing=0.0} chunk 0
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
