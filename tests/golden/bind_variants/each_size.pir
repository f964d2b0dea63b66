// A group of another size has pieces of another size: the model is bound to them as well, the largest first. One that no
// group runs goes.
// RUN-PASSES: bind_variants
// model: ../../models/tiny_mlp.onnx
// strategy: model: {batch: 8}
// strategy: annotate: [{tag: PP, starts: [layers.0, layers.2]}]
// strategy: optimizer: {sgd: {lr: 0.1}}
// CHECK: variant 8 {
// CHECK: chunk 0 "PP0"
// CHECK: %x = input "x" : f32[8, 6]
// CHECK: variant 4 {
// CHECK: chunk 0 "PP0"
// CHECK: %x = input "x" : f32[4, 6]
// CHECK-NOT: variant 2
module {
  step batch 8 microbatches 1
  training clip 0.0
}
variant 2 {
  tag "PP" 2
  chunk 0 "PP0" tags ["PP" 0]
  chunk 1 "PP1" tags ["PP" 1]
  graph {
    %x = input "x" : f32[2, 6]
  }
}
distribution {
  world 3
  stream 0 "compute"
  group 0 [0..1]
  group 1 [2]
  chunk 0 {
    groups [0]
  }
  chunk 1 {
    groups [1]
  }
}
