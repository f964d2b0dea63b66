// Attention of a model that knows nothing of documents reads the number of each place's document.
// RUN-PASSES: bind_model
// model: ../../models/tiny_gpt.onnx
// strategy: model: {batch: 8, documents: mask}
// strategy: run: {document_end: 0}
// strategy: optimizer: {sgd: {lr: 0.1}}
// CHECK: input "documents" : i64[8, 
// CHECK: reshape
// CHECK: attends
// CHECK: q - k >= 0 & r0[q] - r0[k] = 0
module {
  step batch 8 microbatches 1
  training clip 0.0
}
