// The strategy says how many samples and microbatches a step has, and to which norm gradients are clipped; where it says
// so is kept.
// RUN-PASSES: choose_step
// strategy: model: {batch: 8}
// strategy: directives: [{op: split, num_microbatches: 2}]
// strategy: clip_grad_norm: 1.5
// strategy: optimizer: {sgd: {lr: 0.1}}
// CHECK: step batch 8 microbatches 2 split
// CHECK: training clip 1.5 by [[clip]] update [[update]]
module {
  step batch 1 microbatches 1
  training clip 0.0
}
