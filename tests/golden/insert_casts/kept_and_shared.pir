// A table that is looked up and multiplied by stays in f32, and is cast where it is multiplied by. So does what `keep`
// names.
// RUN-PASSES: insert_casts
// CHECK: %table = parameter ["table"] : f32[4, 2]
// CHECK-NOT: master
// CHECK: %rows = embedding(%table, %index)
// CHECK: %kept = linear(%rows, %w, none) : f32[2, 2]
// CHECK: %[[t16]] = cast(%table) {to=bf16} : bf16[4, 2]
// CHECK: %logits = linear(%[[any]], %[[t16]], none) : bf16[2, 4]
module {
  step batch 2 microbatches 1
  training clip 0.0
  precision compute bf16 master f32 reduce f32 keep ["*.router"]
}
variant 2 {
  chunk 0 "all"
  graph {
    %index = input "index" : i64[2]
    %table = parameter ["table"] : f32[4, 2]
    %w = parameter ["w"] : f32[2, 2]
    %rows = embedding(%table, %index) chunk 0
    %kept = linear(%rows, %w, none) scope "h.router" chunk 0
    %logits = linear(%kept, %table, none) chunk 0
    %loss = sum(%logits) {dims=[0, 1]} chunk 0
    loss %loss
  }
}
