// The sum of the gradients of an exchange's result leaves the exchange, which has no program: it goes to the chunk that
// makes its last operand.
// RUN-PASSES: leave_exchanges
// CHECK: %sum = add(%from_3, %from_2) : f32[2, 3] phase backward chunk 2
// CHECK: %back = all_to_all(%sum) : f32[2, 3] phase backward chunk 1
module {
  step batch 2 microbatches 1
  training clip 0.0
}
variant 2 {
  chunk 0 "before"
  chunk 1 "exchange" exchange
  chunk 2 "experts"
  chunk 3 "rest"
  graph {
    %x = input "x" : f32[2, 3]
    %y = relu(%x) chunk 0
    %r = all_to_all(%y) chunk 1
    %a = relu(%r) chunk 2
    %b = mul(%r, %a) chunk 3
    %from_3 = neg(%b) phase backward chunk 3
    %from_2 = neg(%a) phase backward chunk 2
    %sum = add(%from_3, %from_2) phase backward chunk 1
    %back = all_to_all(%sum) phase backward chunk 1
    %c = relu_backward(%back, %y) phase backward chunk 0
  }
}
