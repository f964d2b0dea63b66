// Attention loses its sink and keeps its mask; what read the result and the statistics, the backward among them, reads
// those with the sink.
// RUN-PASSES: part_sinks
// CHECK: %[[X:.*]], %[[LSE:.*]] = scaled_dot_product_attention(%q, %k, %v
// CHECK: %y, %y.1 = attention_sink(%[[X]], %[[LSE]], %s) : f32[1, 2, 3, 4], f32[1, 2, 3] chunk 0
// CHECK: scaled_dot_product_attention_backward(%g, %q, %k, %v, %y, %y.1, none)
module {
  step batch 1 microbatches 1
  training clip 0.0
}
variant 1 {
  chunk 0 "all"
  graph {
    %q = input "q" : f32[1, 2, 3, 4]
    %k = input "k" : f32[1, 1, 3, 4]
    %v = input "v" : f32[1, 1, 3, 4]
    %s = input "s" : f32[1, 2, 3, 1]
    %y, %lse = scaled_dot_product_attention(%q, %k, %v, none, %s) {attends="-q + k + 1 >= 0 & q - k >= 0"} chunk 0
    %g = relu(%y) chunk 0
    %dq, %dk, %dv = scaled_dot_product_attention_backward(%g, %q, %k, %v, %y, %lse, none) {attends="-q + k + 1 >= 0 & q - k >= 0"} phase backward chunk 0
    %ds = attention_sink_backward(%g, %y, %lse, %s) phase backward chunk 0
  }
}
