// A glob of `keep` that names no module of the model would keep nothing.
// RUN-PASSES: bind_model
// model: ../../models/tiny_mlp.onnx
// strategy: model: {batch: 16}
// expect-error@+1 P0243: {{no module matches '*.router'}}
// strategy: precision: {compute: bf16, keep: ["*.router"]}
// strategy: optimizer: {sgd: {lr: 0.1}}
module {
  step batch 16 microbatches 1
  training clip 0.0
}
