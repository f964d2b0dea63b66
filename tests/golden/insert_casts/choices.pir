// Products that a choice of experts is made of are in f32, without a word in `keep`.
// RUN-PASSES: insert_casts
// CHECK: %w = parameter ["w"] : f32[4, 2]
// CHECK-NOT: master
// CHECK: %scores = linear(%x, %w, none) : f32[2, 4]
module {
  step batch 2 microbatches 1
  training clip 0.0
  precision compute bf16 master f32 reduce f32
}
variant 2 {
  chunk 0 "all"
  graph {
    %x = input "x" : f32[2, 2]
    %w = parameter ["w"] : f32[4, 2]
    %scores = linear(%x, %w, none) chunk 0
    %shares = softmax(%scores) {dim=1} chunk 0
    %best, %which = topk(%shares) {dim=1, k=2} chunk 0
    %loss = sum(%best) {dims=[0, 1]} chunk 0
    loss %loss
  }
}
