// What `inputs` says of an input that the model lacks would be fed to nothing.
// RUN-PASSES: bind_model
// model: ../../models/tiny_mlp.onnx
// expect-error@+1 P0247: {{the model has no input 'y'}}
// strategy: model: {batch: 16, inputs: {y: tokens}}
// strategy: optimizer: {sgd: {lr: 0.1}}
module {
  step batch 16 microbatches 1
  training clip 0.0
}
