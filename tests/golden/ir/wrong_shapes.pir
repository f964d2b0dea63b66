// Operand types that do not fit are named.
graph {
  %a = input "a" : f32[4, 3]
  %b = input "b" : f32[4, 2]
  // expect-error@+1 P0402: {{matmul(f32[4, 3], f32[4, 2]): inner extents differ}}
  %y = matmul(%a, %b)
}
