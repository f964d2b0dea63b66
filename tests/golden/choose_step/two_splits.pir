// A step is split once.
// RUN-PASSES: choose_step
// strategy: model: {batch: 8}
// strategy: directives:
// strategy:   - {op: split, num_microbatches: 2}
// expect-error@+1 P0224: {{a second `split`}}
// strategy:   - {op: split, num_microbatches: 4}
// strategy: optimizer: {sgd: {lr: 0.1}}
module {
  step batch 1 microbatches 1
  training clip 0.0
}
