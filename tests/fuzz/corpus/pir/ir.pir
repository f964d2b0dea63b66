graph {
  %x = input "x" : f32[4]
  // expect-error@+1 P0402: {{'x' is defined twice}}
  %x = relu(%x)
}
