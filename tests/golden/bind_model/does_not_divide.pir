// The batch divides into microbatches times devices of the largest group.
// RUN-PASSES: bind_model
// model: ../../models/tiny_mlp.onnx
// expect-error@+1 P0223: {{a batch of 6 does not divide into 2 microbatches on 2 replicas}}
// strategy: model: {batch: 6}
// strategy: directives: [{op: replicate, filter: {}, devices: [0, 1]}]
// strategy: optimizer: {sgd: {lr: 0.1}}
module {
  step batch 6 microbatches 2 split
  training clip 0.0
}
