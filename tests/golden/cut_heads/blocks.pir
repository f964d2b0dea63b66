// A product, views and a conversion of its result, and the cross entropy that alone reads them become one operator; logits that others read, too, stay.
// RUN-PASSES: cut_heads
// CHECK-NOT: linear(%x, %w)
// CHECK: %read = linear(%x, %v)
// CHECK: %sum, %sum.1, %sum.2 = linear_cross_entropy(%x, %w, %labels) {ignore_index=-100, label_smoothing=0.0, logits=f32, blocks=2} : f32[], f32[6], f32[64] chunk 0
// CHECK: cross_entropy_sum(
module {
  step batch 2 microbatches 1
  training clip 0.0
  head blocks 2
}
variant 2 {
  chunk 0 "PP0"
  graph {
    %x = input "x" : bf16[2, 3, 4]
    %labels = input "labels" : i64[6]
    %w = parameter ["w"] : bf16[5, 4]
    %v = parameter ["v"] : bf16[5, 4]
    %logits = linear(%x, %w) chunk 0
    %wide = cast(%logits) {to=f32} chunk 0
    %rows = reshape(%wide) {shape=[6, 5]} chunk 0
    %read = linear(%x, %v) chunk 0
    %others = reshape(%read) {shape=[6, 5]} chunk 0
    %sum, %lse = cross_entropy_sum(%rows, %labels) {ignore_index=-100, label_smoothing=0.0} chunk 0
    %second, %lse2 = cross_entropy_sum(%others, %labels) {ignore_index=-100, label_smoothing=0.0} chunk 0
    %norm = sum(%read) {dims=[0, 1, 2]} chunk 0
    %norm32 = cast(%norm) {to=f32} chunk 0
    %both = add(%sum, %second) chunk 0
    %loss = add(%both, %norm32) chunk 0
    loss %loss
  }
}
