// A rotary embedding takes what it turns as it comes, its tables in f32, and hands on the same type.
// RUN-PASSES: insert_casts
// CHECK: %y = linear(%[[x16]], %w, none) : bf16[2, 4, 2]
// CHECK: %turned = rotary(%y, %cos, %cos) : bf16[2, 4, 2]
// CHECK: %scores = matmul(%turned, %[[t]]) : bf16[2, 4, 4]
module {
  step batch 2 microbatches 1
  training clip 0.0
  precision compute bf16 master f32 reduce f32
}
variant 2 {
  chunk 0 "all"
  graph {
    %x = input "x" : f32[2, 4, 2]
    %cos = input "cos" : f32[4, 2] static
    %w = parameter ["w"] : f32[2, 2]
    %y = linear(%x, %w, none) chunk 0
    %turned = rotary(%y, %cos, %cos) chunk 0
    %t = permute(%turned) {dims=[0, 2, 1]} chunk 0
    %scores = matmul(%turned, %t) chunk 0
    %loss = sum(%scores) {dims=[0, 1, 2]} chunk 0
    loss %loss
  }
}
