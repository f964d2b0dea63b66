// Gradients of what enters parts are added up by the chunk that makes the last of them, before the places add them up.
// RUN-PASSES: leave_exchanges
// CHECK: %g = add(%from_3, %from_2) : f32[2, 3] phase backward chunk 2
// CHECK: %back = all_reduce(%g) : f32[2, 3] phase backward chunk 1
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "before"
  chunk 1 "enter" exchange
  chunk 2 "parts"
  chunk 3 "more parts"
  graph {
    %x = input "x" : f32[2, 3]
    %y = relu(%x) chunk 0
    %e = enter(%y) chunk 1
    %a = relu(%e) chunk 2
    %b = mul(%e, %a) chunk 3
    %from_3 = neg(%b) phase backward chunk 3
    %from_2 = neg(%a) phase backward chunk 2
    %g = add(%from_3, %from_2) phase backward chunk 1
    %back = all_reduce(%g) phase backward chunk 1
    %c = relu_backward(%back, %y) phase backward chunk 0
  }
}
