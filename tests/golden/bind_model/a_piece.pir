// The model is bound to the samples of one piece: the batch over microbatches and devices of the largest group. Nothing
// of it is cut yet.
// RUN-PASSES: bind_model
// model: ../../models/tiny_mlp.onnx
// strategy: model: {batch: 16}
// strategy: directives: [{op: replicate, filter: {}, devices: [0, 1]}]
// strategy: optimizer: {sgd: {lr: 0.1}}
// CHECK: step batch 16 microbatches 2 split cut
// CHECK: variant 4 {
// CHECK-NOT: chunk
// CHECK: %x = input "x" : f32[4, 6]
// CHECK: loss %mse_loss
module {
  step batch 16 microbatches 2 split
  training clip 0.0
}
