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
