// Documents that nothing would keep apart.
// RUN-PASSES: bind_model
// model: ../../models/tiny_mlp.onnx
// expect-error@+1 P0255: {{the model has no attention that stays within documents}}
// strategy: model: {batch: 16, documents: mask}
// strategy: run: {document_end: 0}
// strategy: optimizer: {sgd: {lr: 0.1}}
module {
  step batch 16 microbatches 1
  training clip 0.0
}
